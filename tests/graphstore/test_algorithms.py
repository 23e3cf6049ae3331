"""Array algorithms against networkx, on small random graphs and on the shapes that hurt."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.traverse.algorithms import (
    ancestors,
    between,
    descendants,
    few_next_measured,
    first_diverging,
    first_edges,
    induced_edges,
    nearest_measured_ancestors,
    propagation,
    worst_before,
)
from graphstore.traverse.arrays import GraphArrays, arrays_from_edges

Case = tuple[int, list[tuple[int, int]], list[bool], list[bool]]


@st.composite
def graphs(draw: st.DrawFn, *, loops: bool = False) -> Case:
    """(size, edges, measured, over); without *loops*, edges go to higher numbers."""
    size = draw(st.integers(1, 14))
    number = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(number, number), max_size=30))
    if not loops:
        edges = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    flags = st.lists(st.booleans(), min_size=size, max_size=size)
    return size, edges, draw(flags), draw(flags)


def arrays_of(size: int, edges: list[tuple[int, int]]) -> GraphArrays:
    sources, targets = [a for a, _ in edges], [b for _, b in edges]
    return arrays_from_edges([f"op{number}" for number in range(size)], (sources, targets))


def networkx_of(size: int, edges: list[tuple[int, int]]) -> nx.DiGraph:
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(size))
    return graph


def next_measured(arrays: GraphArrays, measured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = few_next_measured(arrays, measured, 10**9)
    assert pairs is not None
    return pairs


def measured_pairs(case: Case) -> set[tuple[int, int]]:
    """From each measured op to the measured ones reached through unmeasured ops only."""
    size, edges, measured, _ = case
    graph = networkx_of(size, edges)
    pairs = set()
    for source in range(size):
        if not measured[source]:
            continue
        passable = [number for number in range(size) if not measured[number]]
        inner = graph.subgraph(passable)
        for first in graph.successors(source):
            reached = {first}
            if first in inner:
                reached |= {first} | nx.descendants(inner, first)
            for number in reached:
                targets = {number} if measured[number] else set(graph.successors(number))
                pairs |= {(source, target) for target in targets if measured[target]}
    return pairs


def origins_by_networkx(case: Case) -> list[int]:
    """First op of each source part of the over-ops joined by measured pairs."""
    _, _, measured, over = case
    bad = [n for n, (m, o) in enumerate(zip(measured, over, strict=True)) if m and o]
    graph = nx.DiGraph()
    graph.add_nodes_from(bad)
    graph.add_edges_from(p for p in measured_pairs(case) if p[0] in bad and p[1] in bad)
    parts = nx.condensation(graph)
    return sorted(min(data["members"]) for n, data in parts.nodes.items() if not parts.in_degree(n))


@given(graphs(loops=True), st.data())
def test_reach_and_between(case: Case, data: st.DataObject) -> None:
    size, edges, _, _ = case
    arrays, graph = arrays_of(size, edges), networkx_of(size, edges)
    start, end = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    below, above = nx.descendants(graph, start), nx.ancestors(graph, end)
    assert descendants(arrays, [start]).tolist() == sorted(below)
    assert ancestors(arrays, [end]).tolist() == sorted(above)
    assert between(arrays, [start], [end]).tolist() == sorted((below | {start}) & (above | {end}))


@given(graphs(loops=True))
def test_edges_are_kept_once_in_both_directions(case: Case) -> None:
    size, edges, some, _ = case
    arrays, graph = arrays_of(size, edges), networkx_of(size, edges)
    for number in range(size):
        assert arrays.successors(number).tolist() == sorted(graph.successors(number))
        assert arrays.predecessors(number).tolist() == sorted(graph.predecessors(number))
    chosen = [number for number in range(size) if some[number]]
    sources, targets = induced_edges(arrays, np.array(some, dtype=np.bool_))
    kept = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert kept == sorted(graph.subgraph(chosen).edges)


@given(graphs(loops=True))
def test_next_measured(case: Case) -> None:
    size, edges, measured, _ = case
    arrays, mask = arrays_of(size, edges), np.array(measured)
    sources, targets = next_measured(arrays, mask)
    found = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert found == sorted(measured_pairs(case))
    for op in np.flatnonzero(mask).tolist():
        nearest = [source for source, target in found if target == op]
        assert nearest_measured_ancestors(arrays, op, mask).tolist() == nearest


@given(graphs())
def test_first_diverging_without_loops(case: Case) -> None:
    check_first_diverging(case)


@given(graphs(loops=True))
def test_first_diverging_with_loops(case: Case) -> None:
    check_first_diverging(case)


def check_first_diverging(case: Case) -> None:
    size, edges, measured, over = case
    found = first_diverging(arrays_of(size, edges), np.array(measured), np.array(over))
    assert found.tolist() == origins_by_networkx(case)


@given(graphs(loops=True), st.data())
def test_propagation(case: Case, data: st.DataObject) -> None:
    size, edges, _, over = case
    op = data.draw(st.integers(0, size - 1))
    graph = networkx_of(size, edges)
    for mask in (None, np.array(over)):
        allowed = set(range(size)) if mask is None else {op, *np.flatnonzero(mask).tolist()}
        graph_seen = graph.subgraph(allowed).copy()
        if mask is not None and not mask[op]:
            graph_seen.remove_edges_from(list(graph_seen.in_edges(op)))
        spread = propagation(arrays_of(size, edges), op, mask)
        lengths = nx.single_source_shortest_path_length(graph_seen, op)
        ends = sorted(n for n in lengths if not list(graph_seen.successors(n)))
        del lengths[op]
        assert dict(zip(spread.ops.tolist(), spread.distance.tolist(), strict=True)) == lengths
        assert spread.outputs.tolist() == ends


def test_an_error_that_returns_to_clean_is_two_origins() -> None:
    """over -> clean -> over: the second one started anew."""
    arrays = arrays_of(3, [(0, 1), (1, 2)])
    found = first_diverging(arrays, np.ones(3, bool), np.array([True, False, True]))
    assert found.tolist() == [0, 2]


def test_unmeasured_ops_hide_no_ancestor() -> None:
    """over -> unmeasured -> unmeasured -> over: only the first is an origin."""
    arrays = arrays_of(4, [(0, 1), (1, 2), (2, 3)])
    measured = np.array([True, False, False, True])
    found = first_diverging(arrays, measured, np.array([True, False, False, True]))
    assert found.tolist() == [0]


def test_a_loop_of_bad_ops_has_its_first_as_origin() -> None:
    loop = [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]
    arrays = arrays_of(5, loop)
    bad = np.array([False, True, True, True, True])
    assert first_diverging(arrays, np.ones(5, bool), bad).tolist() == [1]
    bad[0] = True
    assert first_diverging(arrays, np.ones(5, bool), bad).tolist() == [0]


def diamonds(count: int) -> tuple[int, list[tuple[int, int]]]:
    edges = []
    for top in range(0, 3 * count, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    return 3 * count + 1, edges


def test_diamonds_in_a_row_do_not_list_paths() -> None:
    """2**200 paths; an answer at all shows that none is walked twice."""
    size, edges = diamonds(200)
    arrays = arrays_of(size, edges)
    unmeasured = np.zeros(size, bool)
    unmeasured[[0, size - 1]] = True
    assert descendants(arrays, [0]).size == size - 1
    assert propagation(arrays, 0).distance[-1] == 400
    assert next_measured(arrays, unmeasured)[1].tolist() == [size - 1]
    assert first_diverging(arrays, unmeasured, unmeasured).tolist() == [0]


@pytest.mark.parametrize("measured_each", [1, 2, 99_999])
def test_a_chain_of_100_000_ops(measured_each: int) -> None:
    size = 100_000
    arrays = arrays_of(size, list(pairwise(range(size))))
    measured = np.zeros(size, bool)
    measured[::measured_each] = True
    over = measured.copy()
    over[0] = False
    sources, targets = next_measured(arrays, measured)
    assert sources.size == targets.size == np.count_nonzero(measured) - 1
    assert first_diverging(arrays, measured, over).tolist() == [measured_each]
    assert ancestors(arrays, [size - 1]).size == size - 1


def test_many_ops_over_one_unmeasured_run() -> None:
    """Each op of a measured chain also enters a long unmeasured one."""
    half = 20_000
    edges = list(pairwise(range(half))) + list(pairwise(range(half, 2 * half)))
    edges += [(number, number + half) for number in range(half)]
    measured = np.arange(2 * half) < half
    measured[-1] = True
    sources, targets = next_measured(arrays_of(2 * half, edges), measured)
    assert np.count_nonzero(targets == 2 * half - 1) == half
    assert sources.size == 2 * half - 1


def test_an_empty_graph() -> None:
    arrays = arrays_of(0, [])
    nothing = np.zeros(0, bool)
    assert first_diverging(arrays, nothing, nothing).size == 0
    assert next_measured(arrays, nothing)[0].size == 0


def pairs_within(size: int, edges: list[tuple[int, int]], measured: set[int], limit: int):
    mask = np.zeros(size, dtype=np.bool_)
    mask[sorted(measured)] = True
    found = few_next_measured(arrays_of(size, edges), mask, limit)
    return None if found is None else list(zip(*(side.tolist() for side in found), strict=True))


@given(graphs(loops=True), st.integers(0, 20))
def test_measured_pairs_are_all_there_or_none(case: Case, limit: int) -> None:
    size, edges, measured, _ = case
    wanted = sorted(measured_pairs(case))
    found = pairs_within(size, edges, {n for n, known in enumerate(measured) if known}, limit)
    assert found == (wanted if len(wanted) <= limit else None)


def test_a_shared_constant_before_many_unmeasured_ops() -> None:
    # 0 feeds 1..n, each of which feeds a measured op of its own
    many = 20_000
    edges = [(0, 1 + i) for i in range(many)] + [(1 + i, 1 + many + i) for i in range(many)]
    ends = set(range(1 + many, 1 + 2 * many))
    assert pairs_within(1 + 2 * many, edges, {0} | ends, many) == [(0, end) for end in sorted(ends)]
    assert pairs_within(1 + 2 * many, edges, ends, 0) == []


def test_many_ways_into_one_unmeasured_region_are_found_in_few_steps() -> None:
    # 2000 diamonds in a row, a measured op before each, one measured op at the end
    edges: list[tuple[int, int]] = []
    starts = set()
    for place in range(2000):
        first = 4 * place
        starts.add(first)
        edges += [(first, first + 1), (first + 1, first + 2), (first + 1, first + 3)]
        edges += [(first + 2, first + 5), (first + 3, first + 5)]
    end = 4 * 2000 + 1
    found = pairs_within(end + 1, edges, starts | {end}, 2000)
    assert found == [(start, end) for start in sorted(starts)]


def test_a_hub_without_metrics_between_many_has_too_many_pairs() -> None:
    many = 2000
    edges = [(i, many) for i in range(many)] + [(many, many + 1 + i) for i in range(many)]
    measured = set(range(2 * many + 1)) - {many}
    assert pairs_within(2 * many + 1, edges, measured, 1_000_000) is None


def test_full_blocks_of_unmeasured_ops() -> None:
    # 1 -> 40 x 40 x 40 ... fully joined -> 1
    wide, deep = 40, 50
    edges = [(0, 1 + i) for i in range(wide)]
    for layer in range(deep - 1):
        base = 1 + layer * wide
        edges += [(base + i, base + wide + j) for i in range(wide) for j in range(wide)]
    end = 1 + wide * deep
    edges += [(end - 1 - i, end) for i in range(wide)]
    assert pairs_within(end + 1, edges, {0, end}, 1) == [(0, end)]


@given(st.one_of(graphs(), graphs(loops=True)), st.data())
def test_the_worst_error_just_before_an_op(case: Case, data: st.DataObject) -> None:
    size, edges, measured, _ = case
    value = st.one_of(st.just(float("nan")), st.floats(0, 10), st.just(float("inf")))
    errors = np.asarray(data.draw(st.lists(value, min_size=size, max_size=size)))
    expected = np.full(size, np.nan)
    pairs = next_measured(arrays_of(size, edges), np.asarray(measured))
    for source, target in zip(*(ends.tolist() for ends in pairs), strict=True):
        if source < target:
            expected[target] = np.fmax(expected[target], errors[source])
    everywhere = [number for number in range(size) if measured[number]]
    found = worst_before(arrays_of(size, edges), np.asarray(measured), errors)
    np.testing.assert_array_equal(found[everywhere], expected[everywhere])


def test_the_worst_error_before_ops_of_a_large_loop() -> None:
    """As many pairs as the square of its ops, which are not listed."""
    many = 20_000
    edges = [(i, many) for i in range(many)] + [(many, many + 1 + i) for i in range(many)]
    arrays = arrays_of(2 * many + 1, [*edges, (2 * many, 0)])
    measured = np.ones(2 * many + 1, dtype=np.bool_)
    measured[many] = False
    found = worst_before(arrays, measured, np.arange(2 * many + 1) % 777.0)
    assert np.isnan(found[:many]).all()
    assert (found[many + 1 :] == 776).all()


@given(graphs(loops=True))
def test_edges_are_counted_by_source_then_target(case: Case) -> None:
    arrays = arrays_of(*case[:2])
    edges = sorted(set(case[1]))
    assert [first_edges(arrays, count) for count in range(len(edges) + 1)] == [*edges, None]
