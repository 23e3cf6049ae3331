"""Named queries about who makes an error, in one run and in several, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.queries import load
from graphstore.cypher.store import CypherStore


def across(store: GraphStore, name: str, **params: object) -> list[tuple[object, ...]]:
    """The answer of a named query over the whole store."""
    assert isinstance(store, CypherStore)
    text = load(name, store.dialect).text
    return list(store.query(text, QueryParameters(params)).rows)


@pytest.mark.slow
def test_what_is_guilty_in_several_runs(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("first"))
    assert across(store, "guilty_originals") == []
    assert across(store, "guilty_patterns") == []
    store.save_run(sample_run("second", created="2026-01-02T00:00:00Z"))
    assert across(store, "guilty_originals") == [("block/relu", "Relu", 2, pytest.approx(5000.0))]
    (found,) = across(store, "guilty_patterns")
    assert found == ("Conv2D", ["BiasAdd", "Conv2D", "Relu"], 2, 1)


@pytest.mark.slow
def test_introduced_errors_that_grew(store: GraphStore, sample_run) -> None:
    data = sample_run("after", created="2026-01-02T00:00:00Z")
    store.save_run(data)
    before = sample_run("before")
    comparisons = tuple(
        replace(item, split=replace(item.split, introduced=0.01, suspicion=100.0))
        if item.op == "conv" and item.split is not None
        else item
        for item in before.comparisons
    )
    store.save_run(replace(before, comparisons=comparisons))
    (row,) = across(store, "introduced_changes", before="before", after="after", times=2)
    assert row[:5] == ("block/relu", 0, "Relu", 0.01, 0.5)
    assert across(store, "introduced_changes", before="after", after="before", times=2) == []
