"""Short ways to ask a store, and to see that two answers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphstore.contract import GraphStore, QueryResult
from graphstore.cypher.limits import NO_LIMITS
from graphstore.cypher.queries import load
from graphstore.cypher.store import CypherStore
from graphstore.embedded import EmbeddedStore
from graphstore.model import Comparison, Finding


def rows_of(answer: QueryResult) -> list[dict[str, Any]]:
    """The rows of *answer* by column."""
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def ops_of(store: GraphStore, query: str, target: str, **params: object) -> list[str]:
    """The column ``op`` of a named query's answer."""
    return [row["op"] for row in rows_of(store.named(query, target, params))]


def by_cypher(store: GraphStore, query: str, target: str, **params: object) -> QueryResult:
    """What the database answers to the query's text, whatever the store answers it with."""
    assert isinstance(store, CypherStore)
    text, place = load(query, store.dialect), store._place(target)
    values = {
        name: store._parameter(place, kind, name, params[name])
        for name, kind in text.parameters.items()
    }
    values = {**store._implied(place, text), **values}
    if isinstance(store, EmbeddedStore):
        return store._database_of(target).ask(text.text, values, NO_LIMITS)
    return store._ask(place, text, values)


def sample_parameters(kinds: Mapping[str, str]) -> dict[str, object]:
    """Parameters for which every query finds something in the sample run."""
    by_kind = {
        "text": "o",
        "number": 5,
        "factor": 1.5,
        "op": "conv",
        "device op": "conv",
        "original op": "conv",
    }
    by_name = {"end_op": "pool", "first": 0}
    return {
        name: by_name.get(name, ["conv"] if kind == "device ops" else by_kind.get(kind))
        for name, kind in kinds.items()
    }


def same(item: Comparison | list[Finding]) -> str:
    """What was compared as text: NaN equals NaN there, and -0.0 is 0.0."""
    return repr(item).replace("-0.0,", "0.0,").replace("-0.0)", "0.0)")
