"""Named queries against networkx and against their own Cypher texts, on every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import networkx as nx
import pytest
from asking import by_cypher, ops_of, sample_parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shaped_runs import shaped_graph

from graphstore.contract import GraphStore
from graphstore.cypher.queries import load
from graphstore.embedded import EmbeddedStore
from graphstore.errors import QueryError

pytestmark = pytest.mark.slow

FEW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Shape = tuple[list[tuple[str, str]], dict[str, bool | None]]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Edges and, by op, whether it is over, fine or unmeasured; half of them without loops. Of 20
    edges in loops Neo4j may walk every one of the ways through them: for hours."""
    size = draw(st.integers(2, 10))
    number = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(number, number), max_size=12))
    if draw(st.booleans()):
        pairs = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    edges = [(f"op{source}", f"op{target}") for source, target in pairs]
    marks = st.sampled_from([True, True, False, None, None])
    return edges, {f"op{number}": draw(marks) for number in range(size)}


@pytest.mark.thorough_on_neo4j
@FEW
@given(shape=shapes())
def test_answers_are_those_of_networkx(store: GraphStore, shaped_run, shape: Shape) -> None:
    edges, errors = shape
    store.save_run(shaped_run("any", edges, errors), replace=True)
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(errors)
    order = ops_of(store, "graph_ops", "any")
    assert sorted(order) == sorted(errors)

    def in_order(ops: Iterable[str]) -> list[str]:
        return sorted(ops, key=order.index)

    reach_is_that_of_networkx(store, graph, errors, in_order)
    # Ops over a limit that feed each other in a loop count as one.
    passing = graph.subgraph(op for op, over in errors.items() if over is not False)
    loops = nx.condensation(passing)
    bad = {
        part for part, members in loops.nodes(data="members") if any(errors[op] for op in members)
    }
    first = {
        min((op for op in loops.nodes[part]["members"] if errors[op]), key=order.index)
        for part in bad
        if not nx.ancestors(loops, part) & bad
    }
    assert ops_of(store, "first_diverging", "any") == in_order(first)
    if nx.is_directed_acyclic_graph(graph):
        assert all(order.index(source) < order.index(target) for source, target in edges)
        assert by_cypher(store, "first_diverging", "any") == (
            store.named("first_diverging", "any", {})
        )


def reach_is_that_of_networkx(
    store: GraphStore,
    graph: nx.DiGraph,
    errors: Mapping[str, bool | None],
    in_order: Callable[[Iterable[str]], list[str]],
) -> None:
    first, last, middle = "op0", f"op{len(errors) - 1}", f"op{len(errors) // 2}"
    below = nx.descendants(graph, first)
    assert ops_of(store, "descendants", "any", op=first) == in_order(below)
    assert ops_of(store, "ancestors", "any", op=last) == in_order(nx.ancestors(graph, last))
    reached = [op for op in below if errors[op] is not None]
    assert ops_of(store, "propagation", "any", op=first) == in_order(reached)
    for start, end in ((first, last), (middle, first), (middle, middle)):
        inner = nx.descendants(graph, start) & nx.ancestors(graph, end)
        way = nx.has_path(graph, start, end)
        between = in_order(inner | {start, end}) if way else []
        assert ops_of(store, "ops_between", "any", start_op=start, end_op=end) == between
        ends = {"start_op": start, "end_op": end}
        assert by_cypher(store, "ops_between", "any", **ends).rows == (
            store.named("ops_between", "any", ends).rows
        )
    for query in ("descendants", "ancestors", "propagation"):
        assert by_cypher(store, query, "any", op=middle) == (
            store.named(query, "any", {"op": middle})
        )


def test_a_loop_of_bad_ops_has_its_first_as_origin(store: GraphStore, shaped_run) -> None:
    edges = [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]
    errors = {"in": False, "a": True, "b": True, "out": True}
    store.save_run(shaped_run("loop", edges, errors))
    assert ops_of(store, "first_diverging", "loop") == ["a"]


def test_an_error_is_followed_through_unmeasured_ops(store: GraphStore, shaped_run) -> None:
    """bad -> 40 unmeasured -> bad: only the first is where it starts."""
    names = ["start", *(f"unmeasured{number}" for number in range(40)), "end", "alone"]
    errors = dict.fromkeys(names) | {"start": True, "end": True, "alone": True}
    store.save_run(shaped_run("gaps", pairwise(names[:-1]), errors))
    assert ops_of(store, "first_diverging", "gaps") == ["start", "alone"]
    assert ops_of(store, "propagation", "gaps", op="start") == ["end"]


def test_an_op_that_feeds_itself(store: GraphStore, shaped_run) -> None:
    edges = [("a", "self"), ("self", "self"), ("self", "b")]
    store.save_run(shaped_run("self", edges, {"a": False, "self": True, "b": True}))
    assert ops_of(store, "descendants", "self", op="self") == ["b"]
    assert ops_of(store, "ancestors", "self", op="self") == ["a"]
    assert ops_of(store, "first_diverging", "self") == ["self"]


def test_parts_without_a_way_between_them(store: GraphStore, shaped_run) -> None:
    edges = [("a", "b"), ("c", "d")]
    store.save_run(shaped_run("parts", edges, dict.fromkeys("abcd", True)))
    assert ops_of(store, "ops_between", "parts", start_op="a", end_op="d") == []
    assert ops_of(store, "ops_between", "parts", start_op="b", end_op="a") == []
    assert ops_of(store, "first_diverging", "parts") == ["a", "c"]


def test_one_op_feeds_thousands(store: GraphStore, shaped_run) -> None:
    edges = [("hub", f"leaf{number}") for number in range(3000)]
    errors = {"hub": True} | {f"leaf{number}": True for number in range(3000)}
    store.save_run(shaped_run("wide", edges, errors))
    assert len(ops_of(store, "descendants", "wide", op="hub")) == 3000
    assert ops_of(store, "first_diverging", "wide") == ["hub"]
    assert ops_of(store, "ancestors", "wide", op="leaf2999") == ["hub"]


def test_control_edges_are_not_followed(store: GraphStore, shaped_run) -> None:
    graph = shaped_graph("held", [("a", "b")], ["a", "b", "c"], control=[("b", "c")])
    store.save_graph(graph, "held")
    assert ops_of(store, "descendants", "held", op="a") == ["b"]
    assert ops_of(store, "ancestors", "held", op="c") == []
    assert store.named("graph_edges", "held", {}).rows == (("a", 0, "b", 0, "a:0", "data"),)


def test_two_hundred_diamonds_in_a_row(store: GraphStore, shaped_run) -> None:
    """2**200 paths: an answer shows that they are not walked one by one."""
    edges = []
    for top in range(0, 600, 3):
        for side in (1, 2):
            edges += [(f"op{top}", f"op{top + side}"), (f"op{top + side}", f"op{top + 3}")]
    names = [f"op{number}" for number in range(601)]
    store.save_run(shaped_run("diamonds", edges, dict.fromkeys(names, False)))
    ends = {"start_op": "op0", "end_op": "op600"}
    assert ops_of(store, "descendants", "diamonds", op="op0") == names[1:]
    assert ops_of(store, "ops_between", "diamonds", **ends) == names
    assert len(by_cypher(store, "descendants", "diamonds", op="op0").rows) == 600
    assert len(by_cypher(store, "ops_between", "diamonds", **ends).rows) == 601


def test_a_chain_deeper_than_the_engine_counts(store: GraphStore) -> None:
    """ladybug stops at 65535 hops; its answer to the text alone would be cut."""
    size = 66_000 if isinstance(store, EmbeddedStore) else 3_000
    names = [f"op{number}" for number in range(size)]
    store.save_graph(shaped_graph("deep", pairwise(names), names), "deep")
    below = store.named("descendants", "deep", {"op": "op0"})
    assert [row[0] for row in below.rows] == list(range(1, size))
    assert len(ops_of(store, "ancestors", "deep", op=names[-1])) == size - 1
    ends = {"start_op": "op10", "end_op": names[-1]}
    assert ops_of(store, "ops_between", "deep", **ends) == names[10:]


def test_a_replaced_run_is_asked_anew(store: GraphStore, shaped_run) -> None:
    """Nothing of the old run is left in memory, though both say the same of themselves."""
    for errors in ({"a": True, "b": True}, {"a": False, "b": True}, {"a": None, "b": None}):
        store.save_run(shaped_run("same", [("a", "b")], errors), replace=True)
        first = [op for op, over in errors.items() if over][:1]
        assert ops_of(store, "first_diverging", "same") == first
        measured = sum(over is not None for over in errors.values())
        assert len(ops_of(store, "worst_tensors", "same", limit=9)) == measured


def test_amplifiers_and_types(store: GraphStore, shaped_run) -> None:
    """Errors are 2 where over and 0 where fine; unmeasured ops are looked through."""
    edges = [("a", "gap"), ("gap", "b"), ("b", "c"), ("d", "c")]
    errors = {"a": False, "gap": None, "b": True, "c": True, "d": False}
    store.save_run(shaped_run("gain", edges, errors))
    answer = store.named("amplifiers", "gain", {"times": 10})
    assert [row[1:] for row in answer.rows] == [("b", "Add", 0.0, 2.0)]
    assert by_cypher(store, "amplifiers", "gain", times=10) == answer
    assert by_cypher(store, "amplifiers", "gain", times=0.5).rows == (
        store.named("amplifiers", "gain", {"times": 0.5}).rows
    )
    types = store.named("errors_by_type", "gain", {})
    assert types.rows == (("Add", 4, 2, 2.0),)
    assert ops_of(store, "unlinked_ops", "gain") == ops_of(store, "graph_ops", "gain")


def test_queries_about_runs_need_a_run(store: GraphStore, sample_run) -> None:
    store.save_graph(sample_run("x").device, "mine")
    assert len(ops_of(store, "graph_ops", "mine")) == 7
    for query in ("first_diverging", "worst_tensors"):
        with pytest.raises(QueryError, match="'mine' is an imported graph"):
            store.named(query, "mine", sample_parameters(load(query, store.dialect).parameters))
