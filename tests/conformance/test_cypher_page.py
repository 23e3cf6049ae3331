"""Every query of docs/cypher.md runs and finds something on a run made for it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher_store import CypherStore
from graphstore.model import Level
from graphstore.schema import NODES

PAGE = (Path(__file__).parents[2] / "docs" / "cypher.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```cypher ?(\w*)\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_queries() -> None:
    assert len(BLOCKS) >= 12


@pytest.mark.parametrize(("dialect", "cypher"), BLOCKS)
def test_a_query_of_the_page_finds_something(
    store: GraphStore, sample_run, dialect: str, cypher: str
) -> None:
    assert isinstance(store, CypherStore)
    if dialect not in ("", store.dialect):
        pytest.skip(f"for {dialect} only")
    store.save_run(sample_run("first"))
    target: str | None = "first"
    if "$" not in cypher:
        store.save_run(passing(sample_run("second")))
        target = None
    assert store.query(cypher, QueryParameters(), target).rows


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_the_page_names_every_property(node) -> None:
    for column in node.columns:
        if not column.name.endswith("_json"):
            assert f"`{column.name}`" in PAGE, f"{node.label}.{column.name}"


def passing(data):
    """The same run with every compared tensor within its limits."""
    fine = (replace(item, level=Level.PASS) if item.compared else item for item in data.comparisons)
    return replace(data, comparisons=tuple(fine))
