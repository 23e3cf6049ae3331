"""The server's answers are the command line's, byte for byte, on every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from analysed_runs import analysed_runs
from full_run import sample_run
from served import served

from divergraph.ask.memory.baselines import set_baseline
from divergraph.ask.memory.notes import add_note
from divergraph.server.settings import ServerSettings
from graphstore.contract import GraphStore


@pytest.fixture(scope="module")
def filled(module_store: GraphStore) -> GraphStore:
    """A store with two runs and a graph."""
    for name in ("first", "second"):
        module_store.save_run(sample_run(name))
    add_note(module_store, "first", "conv", "known: \x1b[31m", "ada")
    set_baseline(module_store, "first", "ada")
    module_store.save_graph(sample_run("first").device, "graph")
    return module_store


@pytest.fixture
def client(filled: GraphStore, address: str, tmp_path: Path) -> Iterator[httpx.Client]:
    with served(ServerSettings(address, tokens=tmp_path / "none")) as client:
        yield client


ASKED = [
    ("runs", "/v1/runs"),
    ("ops first", "/v1/runs/first/ops"),
    ("ops first --where state:origin", "/v1/runs/first/ops?where=state%3Aorigin"),
    ("ops first --side golden", "/v1/runs/first/ops?side=golden"),
    ("ops graph", "/v1/graphs/graph/ops"),
    ("between first conv pool", "/v1/runs/first/between?start=conv&end=pool"),
    ("origins first", "/v1/runs/first/origins"),
    ("origins first --explain", "/v1/runs/first/origins?explain=true"),
    ("origins --all-runs", "/v1/recurring"),
    ("trace first conv", "/v1/runs/first/trace?op=conv"),
    ("roles first --sort suspicion", "/v1/runs/first/roles?sort=suspicion"),
    ("advise first", "/v1/runs/first/advice"),
    ("lineage first conv", "/v1/runs/first/lineage?op=conv"),
    ("lineage first --unmatched", "/v1/runs/first/unmatched"),
    ("compare-runs first second", "/v1/changes?old=first&new=second"),
    ("query --list", "/v1/queries"),
    ("note list", "/v1/notes"),
    ("note list first", "/v1/notes?run=first"),
    ("note list first conv", "/v1/notes?run=first&op=conv"),
    ("baseline list", "/v1/baselines"),
    ("model first --last 3", "/v1/runs/first/model?last=3"),
    ("regressions --hours 1e6", "/v1/regressions?hours=1e6"),
    ("gate first --baseline second", "/v1/runs/first/gate?baseline=second"),
]


def test_answers_are_the_commands(divergraph, client: httpx.Client, address: str) -> None:
    for words, url in ASKED:
        printed = divergraph(*words.split(), "--store", address, "--json").out
        answered = client.get(url)
        assert (answered.status_code, answered.text) == (200, printed), words


ASKED_OF_FILES = [
    ("origins bad --explain", "/v1/runs/bad/origins?explain=true"),
    ("tensor bad fc", "/v1/runs/bad/tensor?op=fc"),
    ("tensor bad fc --output 0 --top 2", "/v1/runs/bad/tensor?op=fc&output=0&top=2"),
    ("tensor bad fc --at 1:3,::2", "/v1/runs/bad/tensor/values?op=fc&at=1:3,::2"),
    ("tensor bad fc --bins 9", "/v1/runs/bad/tensor/histogram?op=fc&bins=9"),
    ("submodel bad --start fc --end turn", "/v1/runs/bad/submodel?start=fc&end=turn"),
    (
        "submodel bad --start fc --start act --end act",
        "/v1/runs/bad/submodel?start=fc&start=act&end=act",
    ),
]
REPORTS = ("csv", "html", "junit", "markdown", "parquet", "sarif")


@pytest.mark.slow
def test_what_takes_the_files_of_a_run_is_the_commands(
    divergraph, client: httpx.Client, address: str, tmp_path: Path
) -> None:
    analysed_runs(tmp_path, address)
    for words, url in ASKED_OF_FILES:
        printed = divergraph(*words.split(), "--store", address, "--json").out
        answered = client.get(url)
        assert (answered.status_code, answered.text) == (200, printed), words
    for words, url in (("blame bad", "blame"), ("minimize bad --budget 4", "minimize")):
        assert client.get(f"/v1/runs/bad/{url}").status_code == 404
        printed = divergraph(*words.split(), "--store", address, "--json").out
        assert client.get(f"/v1/runs/bad/{url}").text == printed
    for kind in REPORTS:
        file = tmp_path / kind
        assert divergraph("report", "bad", f"--{kind}", file, "--store", address).code == 0
        answered = client.get(f"/v1/runs/bad/reports/{kind}")
        assert answered.content == file.read_bytes(), kind
        assert answered.headers["content-disposition"].startswith("attachment")
    for kind in ("csv", "graphml", "json"):
        file = tmp_path / f"exported.{kind}"
        assert divergraph("export", "bad", "-o", file, "--store", address).code == 0
        assert client.get(f"/v1/runs/bad/exports/{kind}").content == file.read_bytes(), kind
    for side in ("golden", "device"):
        array = client.get(f"/v1/runs/bad/tensor.npy?op=fc&side={side}").content
        assert np.load(BytesIO(array)).shape == (4, 8)
    renamed = client.put("/v1/runs/bad/name", json={"name": "other"}).text
    divergraph("rename", "other", "bad", "--store", address)
    assert divergraph("rename", "bad", "other", "--store", address, "--json").out == renamed
    assert client.get("/v1/runs/other/blame").json()["run"] == "other"
    deleted = client.delete("/v1/runs/worse").text
    printed = divergraph("delete", "other", "--store", address, "--json").out
    assert deleted == printed.replace("other", "worse")


def test_a_single_op_is_told_whole(client: httpx.Client) -> None:
    """On either side of a run, and of an imported graph."""
    found = client.get("/v1/runs/first/op?op=conv").json()
    assert (found["state"], found["origin"]["rank"], len(found["links"])) == ("origin", 1, 3)
    assert found["outputs"][0]["compared"]["golden"] == [{"op": "block/relu", "output": 0}]
    assert found["findings"] == client.get("/v1/runs/first/findings").json()["findings"][:1]
    assert client.get("/v1/runs/first/op?op=conv&side=golden").json()["attributes"]["alpha"] == 0.5
    assert client.get("/v1/graphs/graph/op?op=conv").json()["outputs"][0]["compared"] is None
    assert client.get("/v1/runs/first/op?op=con").status_code == 404


def test_cypher_is_the_commands(divergraph, client: httpx.Client, address: str) -> None:
    cypher = "MATCH (o:Op) RETURN o.name AS name ORDER BY name, o.id LIMIT 7"
    told = "query", cypher, "--store", address, "--json"
    asked = {"cypher": cypher}
    assert client.post("/v1/query", json=asked).text == divergraph(*told).out
    named = {"cypher": "worst_tensors", "run": "first", "parameters": {"limit": 2}}
    told = "query", "worst_tensors", "--run", "first", "-p", "limit=2", "--store", address, "--json"
    assert client.post("/v1/query", json=named).text == divergraph(*told).out


def test_nothing_is_written_by_cypher(client: httpx.Client) -> None:
    answer = client.post("/v1/query", json={"cypher": "MATCH (n) DETACH DELETE n"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(client.get("/v1/runs").text)["runs"]


def test_an_answer_that_is_known_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/v1/runs/first/ops")
    again = client.get("/v1/runs/first/ops", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/v1/runs/second/ops", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200
