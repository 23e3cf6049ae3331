"""Gains on graphs made for it, held against every way there is."""

from __future__ import annotations

from math import inf, isfinite, nan

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.ask.columns import with_causes
from graphstore.columns.coded import Coded
from graphstore.model import MetricSet, OpState, Side
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import arrays_from_edges
from tests.made.op_columns import columns_of

ERRORS = st.one_of(st.none(), st.sampled_from([0.0, nan, inf]), st.floats(1e-6, 10))


def row(number: int, error: float | None) -> OpRow:
    metrics = None
    if error is not None:
        metrics = MetricSet(1.0, 0.0, 0.0, error, 0.0, (0.0,) * 4, 0.0, 0.0, 0.0, 0.0)
    state = OpState.NOT_COMPARED if error is None else OpState.CLEAN
    name = f"op{number}"
    place = (number, name, name, "Add", Side.DEVICE, "", "float32", (8,), "ND", 1, ())
    return OpRow(*place, state=state, metrics=metrics)


def arrays_of(size: int, edges: list[tuple[int, int]]):
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    names = [f"op{number}" for number in range(size)]
    return arrays_from_edges(names, (pairs[:, 0], pairs[:, 1]))


@given(st.lists(ERRORS, min_size=1, max_size=9), st.data())
def test_gain_is_over_the_worst_of_the_nearest_measured_ancestors(errors, data):
    size = len(errors)
    number = st.integers(0, size - 1)
    drawn = data.draw(st.lists(st.tuples(number, number), max_size=20))
    edges = [(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]]
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(size))
    ops = columns_of(list(map(row, range(size), errors)))
    rows = with_causes(ops, arrays_of(size, edges), [], Coded.same((), size))
    for op in range(size):
        nearest = [
            before
            for before in range(op)
            if errors[before] is not None
            and any(
                all(errors[between] is None for between in way[1:-1])
                for way in nx.all_simple_paths(graph, before, op)
            )
        ]
        worst = max((errors[one] for one in nearest if isfinite(errors[one])), default=0.0)
        own = errors[op]
        if own is None or not isfinite(own) or worst == 0.0:
            assert rows[op].gain is None
        else:
            assert rows[op].gain == own / worst


@pytest.mark.slow
def test_hubs_of_ops_that_are_not_measured_take_no_square_of_time():
    """20,000 measured ops into a hub and 20,000 out of it: 400 million pairs."""
    half = 20_000
    edges = [(number, half) for number in range(half)]
    edges += [(half, number) for number in range(half + 1, 2 * half + 1)]
    errors = [0.5 if number == 7 else 0.25 for number in range(2 * half + 1)]
    errors[half] = None
    ops = columns_of(list(map(row, range(len(errors)), errors)))
    caused = with_causes(ops, arrays_of(len(ops), edges), [], Coded.same((), len(ops)))
    gains = {found.gain for found in caused}
    assert gains == {None, 0.5}
