"""Packs on the command line and over HTTP: listed, asked and checked."""

from __future__ import annotations

import pytest
from full_run import sample_run
from served import served

import divergraph as dg
from divergraph.server.settings import ServerSettings
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

FUSED = """\
// Answers: ops of a type that were fused.
// Parameter type: text
// Columns: op
// Hits type=Conv:
//   conv: Conv originals=conv,bias
// Misses type=Conv:
//   conv: Conv
MATCH (o:Op {graph: $graph, type: $type}) WHERE o.originals > 1 RETURN o.name AS op
"""


@pytest.fixture
def pack(tmp_path):
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "fused.cypher").write_text(FUSED)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("packs") / "store")
    with open_store(url) as opened:
        opened.save_run(sample_run("first"))
    return url


def test_a_query_of_a_pack_is_listed_and_asked(divergraph, pack, store, monkeypatch):
    listed = divergraph("query", "--packs", pack, "--list", "--json").json["queries"]
    assert [each for each in listed if each["pack"]] == [
        {
            "name": "fused",
            "answers": "ops of a type that were fused.",
            "parameters": ["type"],
            "pack": "team",
        }
    ]
    at = "--run", "first", "--store", store
    asked = "query", "fused", *at, "-p", "type=Conv2D"
    assert divergraph(*asked, "--packs", pack).out == "op\nconv\n"
    assert divergraph(*asked).code == 2, "no pack, no query"
    assert divergraph("query", "fused", *at, "--packs", pack).code == 2, "a value is missing"
    monkeypatch.setenv("DIVERGRAPH_PACKS", str(pack))
    assert divergraph(*asked).out == "op\nconv\n"


def test_a_pack_is_checked(divergraph, pack):
    fine = divergraph("query", "--check", pack)
    assert (fine.code, fine.err) == (0, "every query does what its file says\n")
    path = pack / "fused.cypher"
    path.write_text(FUSED.replace("> 1", "> 0"))
    ended = divergraph("query", "--check", path)
    said = "fused finds something in a graph in which it must not: conv (embedded)"
    assert (ended.code, ended.out) == (1, f"{path}:6: {said}\n")
    told = divergraph("query", "--check", pack, "--json").json
    assert [(each["query"], each["store"]) for each in told["faults"]] == [("fused", "embedded")]
    path.write_text(FUSED.replace("RETURN", "DELETE o RETURN"))
    refused = divergraph("query", "--check", pack)
    assert (refused.code, refused.err.startswith(f"divergraph: {path}:8: DELETE")) == (2, True)
    assert divergraph("query", "--check", pack / "gone").code == 2


def test_a_server_asks_packs_like_ours(divergraph, pack, store, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_PACKS", str(pack))
    with served(ServerSettings(store, tokens=tmp_path / "none")) as client:
        listed = client.get("/v1/queries")
        assert listed.text == divergraph("query", "--list", "--json").out
        asked = {"cypher": "fused", "run": "first", "parameters": {"type": "Conv2D"}}
        answered = client.post("/v1/query", json=asked)
        assert (answered.status_code, answered.json()["rows"]) == (200, [["conv"]])
        (pack / "fused.cypher").write_text("spoilt")
        refused = client.post("/v1/query", json=asked)
        assert (refused.status_code, "fused.cypher:1" in refused.text) == (400, True)
        own = {"cypher": "fused_ops", "run": "first"}
        assert client.post("/v1/query", json=own).status_code == 200
    ended = divergraph("serve", "--port", "0", "--store", store)
    assert (ended.code, "fused.cypher:1" in ended.err) == (2, True)


def test_an_installed_package_brings_queries(divergraph, pack, store, tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "team_queries").mkdir(parents=True)
    (site / "team_queries" / "__init__.py").write_text("")
    (pack / "fused.cypher").rename(site / "team_queries" / "fused.cypher")
    facts = site / "team_queries-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: team-queries\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[divergraph.queries]\nteam = team_queries\n")
    monkeypatch.syspath_prepend(site)
    listed = divergraph("query", "--list", "--json").json["queries"]
    assert [each["name"] for each in listed if each["pack"] == "team"] == ["fused"]
    assert divergraph("query", "--check", "team").code == 0
    with dg.open_store(store) as opened:
        assert opened.query("fused", "first", type="Conv2D").rows == (("conv",),)
        assert len(opened.query("runs").rows) == 1
        with pytest.raises(dg.errors.UnknownNameError):
            opened.query("unfused", "first")
