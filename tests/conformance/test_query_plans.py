"""No named query lists paths: looked up in the plans both engines make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from graphstore.contract import QueryParameters
from graphstore.cypher.queries import Dialect, NamedQuery, list_queries, load
from graphstore.embedded import EmbeddedStore
from graphstore.neo4j import Neo4jStore


def texts(dialect: Dialect) -> list[NamedQuery]:
    return [load(query.name, dialect) for query in list_queries()]


def operators(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from operators(child)


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_neo4j_expands_pruned_only(neo4j_store: Neo4jStore, sample_run) -> None:
    """A plan that expands all paths explodes on the first deep graph."""
    neo4j_store.save_run(sample_run("first"))
    pruned = 0
    with neo4j_store._wire._driver.session() as session:
        for query in texts(Dialect.NEO4J):
            names = dict.fromkeys(re.findall(r"\$(\w+)", query.text))
            plan = session.run(f"EXPLAIN {query.text}", names).consume().plan
            assert plan is not None
            for operator in operators(plan):
                if operator.startswith(("VarLengthExpand", "BFSPruningVarLength")):
                    assert "Pruning" in operator, f"{query.name}: {operator}"
                    pruned += 1
                assert "Trail" not in operator, f"{query.name}: {operator}"
                assert "CartesianProduct" not in operator or query.name in _FEW_BY_FEW, query.name
    assert pruned >= 5


_FEW_BY_FEW = ("sides", "ops_between", "runs", "introduced_changes")
"""These join single nodes found by their ids."""


def test_the_embedded_engine_expands_shortest_only(tmp_path, sample_run) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        for query in texts(Dialect.EMBEDDED):
            for pattern in re.findall(r"\[[^\]]*\*[^\]]*\]", query.text):
                assert re.fullmatch(r"\[:\w+\* SHORTEST 1\.\.65535\]", pattern), query.name
            plan = store.explain(query.name, QueryParameters(), "first")
            assert "RECURSIVE_EXTEND" not in plan or "SHORTEST" in query.text, query.name
            assert "CROSS_PRODUCT" not in plan or query.name in _FEW_BY_FEW, query.name
