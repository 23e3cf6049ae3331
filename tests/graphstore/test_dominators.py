"""Dominators and widest paths against networkx, and on graphs with more paths than atoms."""

from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphstore.traverse.arrays import arrays_from_edges
from graphstore.traverse.error_paths import immediate_dominators, path_to, widest_paths_to


@st.composite
def graphs(draw: st.DrawFn, *, loops: bool = True) -> tuple[int, list[tuple[int, int]]]:
    size = draw(st.integers(1, 14))
    number = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(number, number), max_size=40))
    if not loops:
        pairs = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    return size, pairs


def columns(pairs):
    return [source for source, _ in pairs], [target for _, target in pairs]


def passed_on_every_way(size, edges, end):
    """The nodes from 0 to *end*, by their immediate dominators."""
    last = immediate_dominators(size, edges, 0).tolist()
    chain = [end] if last[end] >= 0 else []
    while chain and chain[-1] != 0:
        chain.append(last[chain[-1]])
    return chain[::-1]


def diamonds(count):
    """0 -> {1, 2} -> 3 -> {4, 5} -> 6 ..."""
    edges = []
    for top in range(0, 3 * count, 3):
        for side in (top + 1, top + 2):
            edges += [(top, side), (side, top + 3)]
    return edges


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_immediate_dominators_are_those_of_networkx(drawn) -> None:
    size, pairs = drawn
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(size))
    expected = {0: 0, **nx.immediate_dominators(graph, 0)}
    expected[0] = 0
    found = immediate_dominators(size, columns(pairs), 0)
    assert {node: dom for node, dom in enumerate(found.tolist()) if dom >= 0} == expected


@settings(deadline=None)
@given(graphs())
def test_every_way_passes_the_common_dominators_and_no_other_op(drawn) -> None:
    size, pairs = drawn
    end = size - 1
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(size))
    found = passed_on_every_way(size, columns(pairs), end)
    if not nx.has_path(graph, 0, end):
        assert found == []
        return
    for node in set(graph) - {0, end}:
        without = graph.subgraph(set(graph) - {node})
        assert (node in found) == (not nx.has_path(without, 0, end))
    assert all(nx.has_path(graph, *pair) for pair in pairwise(found))


@pytest.mark.slow
def test_a_hundred_thousand_diamonds() -> None:
    count = 100_000
    found = passed_on_every_way(3 * count + 1, columns(diamonds(count)), 3 * count)
    assert found == list(range(0, 3 * count + 1, 3))


def width_of(path, errors) -> float:
    return min((errors[op] for op in path if not math.isnan(errors[op])), default=math.inf)


@settings(max_examples=200, deadline=None)
@given(graphs(), st.data())
def test_no_way_is_wider_than_the_one_found(drawn, data) -> None:
    size, pairs = drawn
    value = st.sampled_from([0.0, 0.1, 0.2, 0.5, math.inf, math.nan])
    errors = np.array(data.draw(st.lists(value, min_size=size, max_size=size)))
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    arrays = arrays_from_edges([str(number) for number in range(size)], columns(pairs))
    before = widest_paths_to(arrays, [0], inside, errors)
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(size))
    allowed = graph.subgraph({0, *np.flatnonzero(inside).tolist()})
    for end in range(size):
        path = path_to(before, end)
        if end not in allowed or not nx.has_path(allowed, 0, end):
            assert path == []
            continue
        assert (path[0], path[-1]) == (0, end)
        assert all(allowed.has_edge(*pair) for pair in pairwise(path))
        # wide enough: no path of wider ops only leads there
        wide = width_of(path, errors)
        if not math.isinf(wide):
            wider = [op for op in allowed if math.isnan(errors[op]) or errors[op] > wide]
            part = allowed.subgraph(wider)
            assert not (0 in part and end in part and nx.has_path(part, 0, end))


def test_the_way_follows_the_larger_error_where_both_are_as_wide() -> None:
    """0 is weakest: at the join 3 the branch that brings more is taken."""
    arrays = arrays_from_edges([*"abcd"], columns([(0, 1), (0, 2), (1, 3), (2, 3)]))
    inside = np.ones(4, dtype=np.bool_)
    before = widest_paths_to(arrays, [0], inside, np.array([0.1, 0.2, 0.9, 0.5]))
    assert path_to(before, 3) == [0, 2, 3]


@pytest.mark.parametrize("count", [200, 30_000])
def test_ways_through_diamonds(count: int) -> None:
    size = 3 * count + 1
    arrays = arrays_from_edges([str(number) for number in range(size)], columns(diamonds(count)))
    before = widest_paths_to(arrays, [0], np.ones(size, dtype=np.bool_), np.full(size, math.nan))
    assert len(path_to(before, size - 1)) == 2 * count + 1
