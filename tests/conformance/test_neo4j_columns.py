"""Packed columns of graphs and runs: the same answers as the rows they stand for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.model import Side
from graphstore.neo4j import Neo4jStore
from graphstore.neo4j.columns import PART, packed, parts, unpacked
from graphstore.neo4j.local_server.temporary import LocalServer

COUNT = "MATCH (c:Columns) RETURN count(c)"
ASKED: Mapping[str, Mapping[str, object]] = {
    "sides": {},
    "unlinked_ops": {},
    "ops_by_type": {},
    "errors_by_type": {},
    "first_diverging": {},
    "op_search": {"text": "relu"},
    "worst_tensors": {"limit": 10},
    "amplifiers": {"times": 2.0},
    "graph_edges": {},
}


@given(
    texts=st.lists(st.one_of(st.none(), st.text(), st.lists(st.text(max_size=3), max_size=2))),
    numbers=st.lists(st.floats()),
    small=st.lists(st.integers(-(2**31), 2**31 - 1)),
)
def test_columns_come_back_as_they_were(
    texts: list[object], numbers: list[float], small: list[int]
) -> None:
    columns = {
        "texts": texts,
        "numbers": np.asarray(numbers, "<f8"),
        "small": np.asarray(small, "<i4"),
    }
    found = unpacked(packed(columns))
    assert found["texts"] == texts
    assert found["numbers"].tobytes() == columns["numbers"].tobytes()
    assert found["small"].tolist() == small


def test_large_columns_are_kept_in_parts() -> None:
    data = np.random.default_rng(1).bytes(2 * PART + 1)
    found = list(parts(data))
    assert [(number, len(subgraph)) for number, subgraph in found] == [(0, PART), (1, PART), (2, 1)]
    assert b"".join(subgraph for _, subgraph in found) == data


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_answers_are_the_same_without_columns(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
) -> None:
    """As in a store that an older program wrote."""
    neo4j_store.save_run(sample_run("first"))

    def answers() -> dict[str, object]:
        with Neo4jStore(neo4j_server.url, neo4j_server.user, neo4j_server.password) as store:
            found: dict[str, object] = {
                name: store.named(name, "first", params) for name, params in ASKED.items()
            }
            for side in Side:
                arrays = store.arrays("first", side)
                found[f"ids {side}"] = arrays.ids
                found[f"edges {side}"] = [
                    getattr(arrays, name).tolist()
                    for name in ("successor_start", "successor_ops", "predecessor_ops")
                ] + [arrays.control_successor_ops.tolist(), arrays.control_predecessor_ops.tolist()]
            return found

    packed_ones = answers()
    neo4j_store._wire.write([("MATCH (c:Columns) DELETE c", {})])
    assert answers() == packed_ones
    unlinked, sides = packed_ones["unlinked_ops"], packed_ones["sides"]
    assert unlinked.rows
    assert sides.rows


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_columns_go_with_what_they_stand_for(neo4j_store: Neo4jStore, sample_run) -> None:
    """A graph that another run uses keeps its own."""
    neo4j_store.save_run(sample_run("first"))
    neo4j_store.save_run(sample_run("second"))
    assert neo4j_store._wire.read(COUNT, {}).rows == ((8,),)
    neo4j_store.delete("first")
    assert neo4j_store._wire.read(COUNT, {}).rows == ((6,),)
    neo4j_store.delete("second")
    assert neo4j_store._wire.read(COUNT, {}).rows == ((0,),)
