"""A part of a model, chosen by links and taken away as a file."""

from __future__ import annotations

import io
import re
import zipfile
from html import unescape

import httpx
import onnx
from page_forms import seal_of


def link_to(page: httpx.Response, words: str) -> str:
    (address,) = re.findall(rf'<a [^>]*href="([^"]+)"[^>]*>{words}</a>', page.text)
    return unescape(address)


def test_a_part_is_chosen_from_page_to_page_and_downloaded(own: httpx.Client) -> None:
    page = own.get(link_to(own.get("/runs/values/op?op=relu"), "Start a part here"))
    assert "Mark the end" in page.text
    table = own.get(link_to(page, "table of ops").partition("#")[0])
    assert "Part of the model:" in table.text
    page = own.get(link_to(own.get("/runs/values/op?op=tanh&start=tanh"), "End a part here"))
    assert "1 op of the golden model" in page.text
    answer = own.post(str(page.request.url), data={"seal": seal_of(page)})
    assert answer.status_code == 200, answer.text
    assert "attachment" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        (model,) = [name for name in packed.namelist() if name.endswith(".onnx")]
        nodes = onnx.load_from_string(packed.read(model)).graph.node
    assert [node.op_type for node in nodes] == ["Tanh"]


def test_what_may_not_be_cut_is_told_with_what_may(own: httpx.Client) -> None:
    url = "/runs/values/part?start=tanh&end=relu"
    page = own.get(url)
    assert "Refused: " in page.text
    assert "Download" not in page.text
    answer = own.post(url, data={"seal": seal_of(own.get("/runs/values"))})
    assert answer.status_code == 400
    assert own.get("/runs/values/part?start=none&end=relu").status_code in (400, 404)
    assert own.post(url, data={"seal": "x"}).status_code == 403


def test_parts_of_runs_without_files_are_not_written(own: httpx.Client) -> None:
    url = "/runs/first/part?start=conv&end=conv"
    answer = own.post(url, data={"seal": seal_of(own.get("/runs/first"))})
    assert answer.status_code in (400, 403)
    assert "Traceback" not in answer.text


def test_a_part_of_a_graph_is_chosen_as_that_of_a_run_and_written_by_a_job(
    own: httpx.Client,
) -> None:
    table = own.get("/runs/alone")
    assert "2 ops, 1 edge" in table.text
    page = own.get(
        unescape(re.findall(r'href="([^"]+)" aria-label="tanh as the start"', table.text)[0])
    )
    page = own.get(f"{page.request.url}&end=tanh")
    assert "1 op of the graph" in page.text
    asked = own.get("/v1/graphs/alone/submodel?start=tanh&end=tanh").json()
    assert asked["ops"] == ["tanh"]
    assert "Refused: " in own.get("/runs/alone/part?start=tanh&end=relu").text
    sent = own.post(str(page.request.url), data={"seal": seal_of(page), "random": "5"})
    assert sent.status_code == 303
    assert "--random=5" in own.get(sent.headers["location"]).text


def test_a_part_of_a_graph_reads_below_the_roots_only(own: httpx.Client) -> None:
    url = "/runs/alone/part?start=tanh&end=tanh"
    for path in ("/etc/passwd", "x=/etc/passwd", "x=data:../../etc/passwd"):
        answer = own.post(url, data={"seal": seal_of(own.get(url)), "inputs": path})
        assert answer.status_code == 403, path
        assert "etc/passwd" in answer.text, "what was typed stays"
    net = "/runs/net/part?start=conv&end=conv"  # whose file is in none of them
    assert own.post(net, data={"seal": seal_of(own.get(net)), "random": "1"}).status_code == 403


def test_the_graph_shows_the_part_or_why_it_is_refused(own: httpx.Client) -> None:
    address = "/runs/values/graph/part"
    part = own.get(f"{address}?start=relu&end=tanh").json()
    assert (part["side"], part["ops"], part["refused"]) == ("golden", ["relu", "tanh"], [])
    (refusal,) = own.get(f"{address}?start=tanh&end=relu").json()["refused"]
    assert "comes before the start" in refusal["sentence"]
    assert (refusal["starts"], refusal["ends"]) == (["relu"], ["tanh"])
    assert "has no op 'none'" in own.get(f"{address}?start=none&end=relu").json()["why_not"]
    page = own.get("/runs/values/graph?start=relu&end=tanh")
    assert "Download the part" in page.text


def test_the_smallest_failing_part_is_searched_by_a_job(own: httpx.Client) -> None:
    page = own.get("/runs/values/ask/minimize")
    assert "minimize has not been run on" in page.text
    form = {"seal": seal_of(page), "start": "relu", "end": "tanh"}
    begun = own.post("/runs/values/ask/minimize", data=form)
    assert begun.status_code == 303, begun.text
    job = own.get(begun.headers["location"]).text
    assert "<code>--start=relu</code>" in job
    assert own.post("/runs/values/ask/trace", data={"seal": form["seal"]}).status_code == 404
    assert own.post("/runs/values/ask/minimize", data={"start": "relu"}).status_code == 403
