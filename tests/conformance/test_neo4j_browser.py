"""A run is painted for Neo4j Browser, and nothing else is changed by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from divergraph.cli.main import run as divergraph
from graphstore.model import Side
from graphstore.neo4j.browser_view import style

pytestmark = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "teams.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^// .+\n((?:MATCH .+\n)+)", PAGE, re.MULTILINE)


def rows(store, cypher):
    return store._wire.read(cypher, {}).rows


def test_ops_are_coloured_and_parts_found_until_it_is_washed_off(neo4j_store, sample_run):
    neo4j_store.save_run(sample_run("first"))
    neo4j_store.save_run(sample_run("second"))
    before = rows(neo4j_store, "MATCH (n) RETURN count(n), sum(size(labels(n)))")
    graph = neo4j_store.graph("first", Side.DEVICE)

    coloured = neo4j_store.paint("first")
    painted = dict(
        rows(
            neo4j_store,
            "MATCH (m:Metric {run: 'first'})-[:OF]->(o:Op) WHERE m.io = 'output' "
            "UNWIND [l IN labels(o) WHERE l STARTS WITH 'Cos_'] AS band RETURN o.name, band",
        )
    )
    assert coloured == len(painted) > 0
    assert set(painted.values()) <= set(re.findall(r"node[.](Cos_\w+)", style()))
    assert "Cos_NaN" in painted.values()
    assert len(QUERIES) == 3
    found = [rows(neo4j_store, query.replace("'demo'", "'first'")) for query in QUERIES]
    assert found[0]
    alone = "MATCH (n) WHERE NOT n:_Internal AND NOT (n)--() RETURN count(n)"
    assert rows(neo4j_store, alone) == ((0,),)
    assert neo4j_store.graph("first", Side.DEVICE) == graph

    neo4j_store.delete("second")  # what is painted stands in no one's way
    neo4j_store.wash()
    neo4j_store.save_run(sample_run("second"))
    assert rows(neo4j_store, "MATCH (n) RETURN count(n), sum(size(labels(n)))") == before
    neo4j_store.paint("first")
    neo4j_store.delete("first")
    neo4j_store.delete("second")
    assert rows(neo4j_store, "MATCH (n:Op|Tensor|Graph|Model|Run) RETURN count(n)") == ((0,),)


def test_a_store_that_is_no_neo4j_is_refused(tmp_path, capsys):
    assert divergraph(["neo4j", "paint", "-o", str(tmp_path / "style.grass")]) == 0
    assert "node.Cos_Bad" in (tmp_path / "style.grass").read_text()
    assert divergraph(["neo4j", "paint"]) == 2
    assert "give a run" in capsys.readouterr().err
