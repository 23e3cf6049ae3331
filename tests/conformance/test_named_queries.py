"""Named queries in Cypher against the array algorithms, on every store."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphstore.algorithms import ancestors, between, descendants, first_diverging
from graphstore.contract import GraphStore
from graphstore.errors import QueryError, UnknownNameError
from graphstore.measured import measured_ops, over_ops
from graphstore.neo4j import Neo4jStore
from graphstore.queries import Dialect, list_queries, load

FEW = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[str, bool | None]]:
    """Edges and, by op, whether it is over, fine or unmeasured."""
    size = draw(st.integers(2, 10))
    number = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(number, number), max_size=20))
    edges = [(f"op{min(pair)}", f"op{max(pair)}") for pair in pairs if pair[0] != pair[1]]
    marks = st.sampled_from([True, True, False, None])
    return edges, {f"op{number}": draw(marks) for number in range(size)}


def ops_of(store: GraphStore, query: str, target: str, **params: object) -> list[str]:
    answer = store.named(query, target, params)
    return [row[answer.columns.index("op")] for row in answer.rows]


@FEW
@given(shapes())
def test_cypher_agrees_with_the_arrays(store: GraphStore, shaped_run, shape) -> None:
    data = shaped_run("any", *shape)
    store.save_run(data, replace=True)
    arrays = store.arrays("any")
    ids = np.array(arrays.ids)
    measured = measured_ops(arrays, data.comparisons)
    over = over_ops(arrays, data.comparisons)
    origins = first_diverging(arrays, measured, over)
    assert ops_of(store, "first_diverging", "any") == ids[origins].tolist()
    first, last = arrays.ids[0], arrays.ids[-1]
    below = descendants(arrays, [0])
    assert ops_of(store, "descendants", "any", op=first) == ids[below].tolist()
    above = ancestors(arrays, [len(ids) - 1])
    assert ops_of(store, "ancestors", "any", op=last) == ids[above].tolist()
    inner = [op for op in ids[between(arrays, [0], [len(ids) - 1])] if op not in (first, last)]
    assert ops_of(store, "ops_between", "any", start_op=first, end_op=last) == inner
    reached = [op for op in ids[below] if measured[arrays.number[op]]]
    assert ops_of(store, "propagation", "any", op=first) == reached


def test_a_loop_of_bad_ops_has_its_first_as_origin(store: GraphStore, shaped_run) -> None:
    edges = [("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")]
    errors = {"in": False, "a": True, "b": True, "out": True}
    store.save_run(shaped_run("loop", edges, errors))
    assert ops_of(store, "first_diverging", "loop") == ["a"]


def test_chains_longer_than_the_engine_likes(store: GraphStore, shaped_run) -> None:
    """ladybug stops at 30 hops unless told otherwise."""
    names = [f"op{number}" for number in range(500)]
    store.save_run(shaped_run("chain", pairwise(names), dict.fromkeys(names, False)))
    assert ops_of(store, "descendants", "chain", op="op0") == names[1:]
    assert ops_of(store, "ancestors", "chain", op="op499") == names[:-1]
    middle = ops_of(store, "ops_between", "chain", start_op="op10", end_op="op400")
    assert middle == names[11:400]


def test_diamonds_in_a_row(store: GraphStore, shaped_run) -> None:
    """2**100 paths: an answer shows that they are not walked one by one."""
    edges = []
    for top in range(0, 300, 3):
        for side in (1, 2):
            edges += [(f"op{top}", f"op{top + side}"), (f"op{top + side}", f"op{top + 3}")]
    names = [f"op{number}" for number in range(301)]
    store.save_run(shaped_run("diamonds", edges, dict.fromkeys(names, False)))
    assert ops_of(store, "descendants", "diamonds", op="op0") == names[1:]
    middle = ops_of(store, "ops_between", "diamonds", start_op="op0", end_op="op300")
    assert middle == names[1:-1]


def test_lineage_search_and_lists(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("first"))
    lineage = store.named("lineage_of_device_op", "first", {"op": "conv"})
    assert [row[2] for row in lineage.rows] == ["conv", "block/bias", "block/relu"]
    assert lineage.rows[2][3:] == ("origin_output", 0, 0)
    back = store.named("lineage_of_original_op", "first", {"op": "block/relu"})
    assert [row[1] for row in back.rows] == ["conv"]
    assert ops_of(store, "op_search", "first", text="POOL") == ["pool"]
    assert ops_of(store, "fused_ops", "first") == ["conv"]
    types = dict(store.named("ops_by_type", "first", {}).rows)
    assert types == {"Data": 2, "Conv2D": 1, "Cast": 1, "While": 1, "Pooling": 1, "Add": 1}
    reasons = dict(store.named("not_compared_by_reason", "first", {}).rows)
    assert set(reasons.values()) == {1}
    assert "inserted" in reasons
    worst = ops_of(store, "worst_tensors", "first", limit=5)
    assert worst == ["pool", "conv"], "NaN is worst"
    edges = store.named("graph_edges", "first", {})
    assert ("trans", 0, "body/in", 0, "trans:0", "call") in edges.rows
    assert ops_of(store, "graph_ops", "first") == list(store.arrays("first").ids)


def test_queries_about_runs_need_a_run(store: GraphStore, sample_run) -> None:
    store.save_graph(sample_run("x").device, "mine")
    assert len(ops_of(store, "graph_ops", "mine")) == 7
    with pytest.raises(QueryError, match="'mine' is an imported graph"):
        store.named("first_diverging", "mine", {})


def test_wrong_parameters_and_names(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("first"))
    with pytest.raises(QueryError, match=r"takes \$op, not no parameters"):
        store.named("descendants", "first", {})
    with pytest.raises(QueryError, match=r"takes no parameters, not \$x"):
        store.named("runs", "first", {"x": 1})
    with pytest.raises(UnknownNameError, match=r"no query named 'descendant'.*descendants"):
        store.named("descendant", "first", {})
    with pytest.raises(UnknownNameError, match=r"no op named 'cnv'.*conv"):
        store.named("descendants", "first", {"op": "cnv"})


@pytest.mark.parametrize("query", [query.name for query in list_queries()])
def test_every_query_runs_on_every_store(store: GraphStore, sample_run, query: str) -> None:
    """The same columns and rows everywhere follow from the tests above; here: it runs."""
    store.save_run(sample_run("first"))
    by_kind = {"text": "o", "number": 5, "op": "conv", "device op": "conv", "device ops": ["conv"]}
    by_kind["original op"] = "conv"
    params = {name: by_kind[kind] for name, kind in load(query, Dialect.NEO4J).parameters.items()}
    answer = store.named(query, "first", params)
    assert answer.columns
    assert all(len(row) == len(answer.columns) for row in answer.rows)


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
@pytest.mark.parametrize("query", ["descendants", "ancestors", "ops_between", "propagation"])
def test_neo4j_plans_keep_no_paths(neo4j_store: Neo4jStore, sample_run, query: str) -> None:
    """A plan that expands all paths explodes on the first deep graph."""
    neo4j_store.save_run(sample_run("first"))
    text = load(query, Dialect.NEO4J).text
    keys = ("op", "start_op", "end_op", "run", "graph")
    with neo4j_store._wire._driver.session() as session:
        summary = session.run(f"EXPLAIN {text}", dict.fromkeys(keys, "x")).consume()
    assert summary.plan is not None
    operators = str(summary.plan)
    assert "VarLengthExpand(Pruning" in operators
    assert "VarLengthExpand(All" not in operators
    assert "VarLengthExpand(Into" not in operators
