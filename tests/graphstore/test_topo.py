"""The order of ops: producers first, loops together, always the same."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.model import Framework, GraphKind, InputRef, ModelGraph, Op, Tensor, TensorRef
from graphstore.traverse.topological_order import graph_arrays, topo_order

Edges = list[tuple[int, int]]


def graph_of(size: int, data: Edges, control: Edges = (), sequence: list[int] = ()) -> ModelGraph:
    ops = []
    for number in range(size):
        inputs = tuple(
            InputRef(f"op{source}:0", TensorRef(f"op{source}", 0))
            for source, target in data
            if target == number
        )
        waits = tuple(f"op{source}" for source, target in control if target == number)
        place = sequence[number] if sequence else 0
        name = f"op{number}"
        ops.append(Op(name, name, "Add", inputs, waits, (Tensor(f"{name}:0"),), sequence=place))
    return ModelGraph("g", GraphKind.DEVICE, Framework.ONNX, "onnx", tuple(ops))


def order_of(*args) -> list[int]:
    return [int(op[2:]) for op in topo_order(graph_of(*args))]


@st.composite
def any_edges(draw: st.DrawFn) -> tuple[int, Edges, Edges, list[int]]:
    size = draw(st.integers(1, 12))
    number = st.integers(0, size - 1)
    pairs = st.lists(st.tuples(number, number), max_size=20)
    sequence = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return size, draw(pairs), draw(pairs), sequence


@given(any_edges())
def test_order_respects_all_edges_that_close_no_loop(case) -> None:
    size, data, control, _ = case
    order = order_of(*case)
    assert sorted(order) == list(range(size))
    place = {op: at for at, op in enumerate(order)}
    graph = nx.DiGraph(data)
    graph.add_nodes_from(range(size))
    loops = list(nx.strongly_connected_components(graph))
    loop_of = {op: at for at, loop in enumerate(loops) for op in loop}
    assert all(place[a] < place[b] for a, b in data if loop_of[a] != loop_of[b])
    for loop in loops:
        places = sorted(place[op] for op in loop)
        assert places == list(range(places[0], places[0] + len(loop))), "a loop stays together"
    both = nx.DiGraph(data + control)
    both.add_nodes_from(range(size))
    knots = {
        op: at for at, knot in enumerate(nx.strongly_connected_components(both)) for op in knot
    }
    assert all(place[a] < place[b] for a, b in control if knots[a] != knots[b])


@given(any_edges())
def test_order_is_the_smallest_by_sequence_then_place(case) -> None:
    size, data, _, sequence = case
    forward = [(min(pair), max(pair)) for pair in data if pair[0] != pair[1]]
    graph = nx.DiGraph(forward)
    graph.add_nodes_from(range(size))
    expected = nx.lexicographical_topological_sort(graph, key=lambda op: (sequence[op], op))
    assert order_of(size, forward, [], sequence) == list(expected)


def test_a_loop_starts_where_it_is_entered() -> None:
    """enter -> merge <- next; merge -> body -> next: merge comes first though listed last."""
    body, following, merge, enter = range(4)
    edges = [(enter, merge), (following, merge), (merge, body), (body, following)]
    assert order_of(4, edges) == [enter, merge, body, following]


def test_a_control_edge_against_the_data_is_ignored() -> None:
    assert order_of(3, [(0, 1), (1, 2)], [(2, 0)]) == [0, 1, 2]


def test_inputs_from_nowhere_do_not_matter() -> None:
    op = Op("a", "a", "Add", (InputRef("x", TensorRef("gone", 0)),), ("gone too",))
    graph = ModelGraph("g", GraphKind.DEVICE, Framework.ONNX, "onnx", (op,))
    assert topo_order(graph) == ["a"]


def test_arrays_are_numbered_by_the_order_and_have_no_control_edges() -> None:
    arrays = graph_arrays(graph_of(3, [(2, 0)], [(0, 1)]))
    assert arrays.ids == ("op2", "op0", "op1")
    assert arrays.successors(0).tolist() == [1]
    assert arrays.successors(1).tolist() == []


@pytest.mark.slow
def test_a_long_chain_listed_backwards() -> None:
    size = 50_000
    ops = tuple(
        Op(f"{n}", f"{n}", "Add", (InputRef("", TensorRef(f"{n - 1}", 0)),), sequence=0)
        for n in reversed(range(size))
    )
    graph = ModelGraph("g", GraphKind.DEVICE, Framework.ONNX, "onnx", ops)
    assert topo_order(graph) == [f"{n}" for n in range(size)]
