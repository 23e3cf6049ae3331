"""What the pages show: the answers that programs get, for people."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import httpx
import pytest
from full_run import sample_run
from page_forms import seal_of
from starlette.datastructures import QueryParams

from divergraph.ask.questions.runs import StoreEntries
from divergraph.server.pages.runs_page import ROWS, run_list
from divergraph.server.roots import Roots
from graphstore.errors import InputError
from graphstore.model import Verdict


def text_of(page: httpx.Response) -> str:
    """What a reader sees, in one line."""
    assert page.status_code == 200, page.text
    body = re.sub(r"<(script|style|title).*?</\1>", "", page.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def ops_of(page: httpx.Response) -> list[str]:
    """The ops in the table, in its order."""
    table = page.text.partition('<table class="list ops">')[2].partition("</table>")[0]
    names = re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', table)
    return [unescape(name.replace("<wbr>", "")) for name in names]


def test_runs_are_listed_with_their_verdicts(own: httpx.Client) -> None:
    said = text_of(own.get("/"))
    assert "first diverged" in said
    assert "1\u20133 of 3 runs" in said
    assert "net ascend, ge_proto 7 6" in said
    assert "No run is like that" in text_of(own.get("/?verdict=clean"))
    assert "1\u20131 of 1 runs" in text_of(own.get("/?name=FIRS&sort=-over"))


def test_two_ticked_runs_lead_to_what_changed(own: httpx.Client) -> None:
    assert own.get("/").text.count('form="pair" name="run"') == 3
    there = own.get("/compare-runs?run=first&run=first")
    assert (there.status_code, there.headers["location"]) == (
        303,
        "/runs/first/graph?against=first",
    )
    said = text_of(own.get(there.headers["location"]))
    assert "Since first : 1 change conv is still guilty" in said
    assert "See it in the graph" in text_of(own.get("/ask/compare-runs?old=first&new=first"))
    for wrong, status in (("run=first", 400), ("run=first&run=none", 404)):
        assert own.get(f"/compare-runs?{wrong}").status_code == status
    unlike = own.get("/runs/first/graph?against=values")
    assert (unlike.status_code, "in common" in unlike.text) == (400, True)


def test_a_long_list_of_runs_has_pages() -> None:
    run = sample_run().run
    runs = [
        replace(run, name=f"run {at:03}", created=f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z")
        for at in range(2 * ROWS + 3)
    ]
    runs[7] = replace(runs[7], verdict=Verdict.CLEAN)
    entries = StoreEntries(runs, [], {})
    newest = run_list(entries, QueryParams(""))
    assert (newest.runs[0].name, newest.pages, newest.total) == ("run 102", 3, 103)
    last = run_list(entries, QueryParams("sort=name&page=3"))
    assert [run.name for run in last.runs] == ["run 100", "run 101", "run 102"]
    assert [run.name for run in run_list(entries, QueryParams("verdict=clean")).runs] == ["run 007"]
    for wrong in ("sort=size", "page=0", "page=x", "verdict=good", "page=99999999999"):
        with pytest.raises(InputError):
            run_list(entries, QueryParams(wrong))


def test_a_run_says_first_where_its_error_starts(own: httpx.Client) -> None:
    page = own.get("/runs/first")
    said = text_of(page)
    assert said.index("Where the error starts") < said.index("cause: rounding") < said.index("Ops")
    assert '<a class="op" href="/runs/first/op?op=conv">conv</a>' in page.text
    assert "inserted by the compiler" in said
    assert page.text.count('class="point"') == 2
    assert 'data-state="origin"' in page.text


@pytest.mark.parametrize(
    "query",
    ["", "?sort=-rel", "?sort=op", "?where=fused>1", "?where=type:Data&sort=type", "?side=golden"],
)
def test_the_table_is_the_list_of_the_api(own: httpx.Client, query: str) -> None:
    usual = {} if "side" in query else {"sort": "cos"}
    given = usual | dict(QueryParams(query.removeprefix("?")))
    answer = own.get("/v1/runs/first/ops", params=given).json()
    assert ops_of(own.get(f"/runs/first{query}")) == [op["op"] for op in answer["ops"]]


def test_a_filter_that_cannot_be_understood_is_told_beside_the_table(own: httpx.Client) -> None:
    page = own.get("/runs/first?where=cos<<")
    assert page.status_code == 400
    assert "needs a number" in page.text
    assert 'value="cos&lt;&lt;"' in page.text
    assert len(ops_of(page)) == 7


def test_the_states_of_the_legend_filter_the_table(own: httpx.Client) -> None:
    (address,) = re.findall(
        r'<li><a href="(/runs/first\?state=origin)#ops">', own.get("/runs/first").text
    )
    assert ops_of(own.get(address)) == ["conv"]


def test_an_op_shows_both_sides_and_leads_to_its_neighbours(own: httpx.Client) -> None:
    page = own.get("/runs/first/op?op=conv")
    said = text_of(page)
    for words in (
        "conv adds no bias",
        "suspicion 5000",
        "Both sides' numbers output side least largest",
        "Originals 3",
    ):
        assert words.lower() in said.lower(), words
    linked = {unescape(each) for each in re.findall(r'<a [^>]*href="([^"]+)"', page.text)}
    assert {f"/runs/first/op?op={op}" for op in ("x", "trans")} <= linked, "what it reads and feeds"
    assert "/runs/first/graph?op=conv" in linked


def test_a_golden_op_and_an_op_of_a_graph_have_pages(own: httpx.Client) -> None:
    assert "Device ops 1 pool" in text_of(own.get("/runs/first/op?op=pool&side=golden"))
    assert "An imported graph" in text_of(own.get("/runs/net"))
    assert "See it in the graph" in text_of(own.get("/runs/net/op?op=conv"))
    assert "body/é" in text_of(own.get("/runs/net/op", params={"op": "body/é 'q'\""}))


def test_a_note_stays_with_its_op(own: httpx.Client) -> None:
    way = "/runs/first/op?op=pool"
    assert own.post(way, data={"text": "x"}).status_code == 403
    form = {"seal": seal_of(own.get(way)), "text": "seen <b>before</b>\u202e"}
    assert own.post(way, data=form).headers["location"] == f"{way}#notes"
    assert "seen &lt;b&gt;before&lt;/b&gt;\\u202e" in own.get(f"{way}&side=golden").text
    assert own.post("/runs/first/op?op=none", data=form).status_code == 404
    assert own.post(way, data=form | {"text": " "}).status_code == 400


def test_values_are_pictures_for_analysts(own: httpx.Client) -> None:
    page = own.get("/runs/values/op?op=relu&values=output:0")
    said = text_of(page)
    for words in (
        "elements by |device - golden|",
        "mean |device - golden| by place",
        "values: device over golden",
        "axis 1, 0 to 5",
        "Largest absolute errors",
    ):
        assert words in said
    assert 'class="heat-7"' in page.text
    assert 'NaN, Inf: 1"' in own.get("/runs/values/op?op=tanh&values=output:0").text
    assert "There are no pictures" in text_of(own.get("/runs/first/op?op=conv&values=output:0"))


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("/runs/none", 404, "no run named"),
        ("/runs/first/op", 400, "a parameter is missing"),
        ("/runs/first/op?op=none", 404, "no op named"),
        ("/runs/first/op?op=conv&side=up", 400, "no such side"),
        ("/runs/first/op?op=conv&values=all", 400, "a tensor is named"),
        ("/runs/first?sort=size", 400, "cannot be sorted"),
        ("/runs/first?page=-1", 400, "a page has a number"),
        ("/runs/first?state=odd", 400, "no such state"),
        ("/jobs/none", 404, "no job named"),
        ("/nowhere", 404, "Not Found"),
        ("/static/other.css", 404, "Not Found"),
    ],
)
def test_what_there_is_not_is_told_on_a_page(
    own: httpx.Client, url: str, code: int, said: str
) -> None:
    page = own.get(url)
    assert (page.status_code, page.headers["content-type"]) == (code, "text/html; charset=utf-8")
    assert said in unescape(page.text)
    program = own.get(url, headers={"Accept": "*/*"})
    assert program.headers["content-type"] == "application/problem+json"


def test_no_page_says_where_files_lie(own: httpx.Client, place) -> None:
    for url in ("/runs/values", "/compare", "/runs/values/op?op=relu"):
        assert str(place) not in own.get(url).text
    assert "data:golden" in own.get("/runs/values").text
    assert '<option value="data:net.onnx">' in own.get("/compare").text


def test_paths_in_sentences_are_told_by_their_root(tmp_path) -> None:
    roots = Roots((tmp_path,), {"data": tmp_path})
    said = f"no graph in '{tmp_path}/a/b.txt', see /etc/deep/x; LeNet/conv, http://a/b/c and 1/2/3"
    told = roots.told(said)
    assert told == "no graph in 'data:a/b.txt', see x; LeNet/conv, http://a/b/c and 1/2/3"
    assert Roots(None).told(said) == said
    assert str(tmp_path) not in Roots(None).for_guests().told(said)


def test_files_of_pages_may_be_kept(own: httpx.Client) -> None:
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', own.get("/").text)
    answer = own.get(style)
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert "--origin" in answer.text


def test_a_run_is_exported_by_links(own: httpx.Client) -> None:
    page = own.get("/runs/first").text
    files = re.findall(r'href="(/v1/runs/first/(?:exports|reports)/[^"]+)" download', page)
    assert len(files) == 9
    for file in files:
        assert own.get(unescape(file)).status_code == 200, file
    assert 'href="/v1/graphs/net/exports/graphml" download' in own.get("/runs/net").text


def test_ops_of_one_type_are_listed_and_drawn_alone(own: httpx.Client) -> None:
    page = own.get("/runs/first?type=Pooling")
    listed = own.get("/v1/runs/first/ops?where=type:Pooling").json()["ops"]
    assert ops_of(page) == [op["op"] for op in listed]
    assert own.get('/runs/first?type="').status_code == 200
