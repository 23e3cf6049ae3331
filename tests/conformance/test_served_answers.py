"""The server's answers are the command line's, byte for byte, on every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from full_run import sample_run
from served import served

from benchmarks.scale.local_neo4j import LocalServer
from divergraph.server.settings import ServerSettings
from graphstore.contract import GraphStore
from graphstore.neo4j import Neo4jStore


@pytest.fixture(scope="module")
def filled(module_store: GraphStore) -> GraphStore:
    """A store with two runs and a graph."""
    for name in ("first", "second"):
        module_store.save_run(sample_run(name))
    module_store.save_graph(sample_run("first").device, "graph")
    return module_store


@pytest.fixture
def address(filled: GraphStore, request: pytest.FixtureRequest, monkeypatch) -> str:
    """What --store takes; for Neo4j, the password is in the environment."""
    if isinstance(filled, Neo4jStore):
        servers = map(request.getfixturevalue, ("neo4j_server", "newest_server"))
        server: LocalServer = next(each for each in servers if each.url == filled.url)
        monkeypatch.setenv("NEO4J_USERNAME", server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    return filled.url


@pytest.fixture
def client(address: str, tmp_path: Path) -> Iterator[httpx.Client]:
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
]


def test_answers_are_the_commands(divergraph, client: httpx.Client, address: str) -> None:
    for words, url in ASKED:
        printed = divergraph(*words.split(), "--store", address, "--json").out
        answered = client.get(url)
        assert (answered.status_code, answered.text) == (200, printed), words


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
