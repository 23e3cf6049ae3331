"""All that is asked of one run, the small one with every kind of fact, on every store.

It is saved once an engine: these tests only read.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
from asking import by_cypher, ops_of, same, sample_parameters
from full_run import sample_run

from divergraph.ask.facts import resolve_op
from divergraph.ask.output_errors import output_errors
from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.queries import list_queries, load
from graphstore.cypher.traversals import ON_ARRAYS
from graphstore.errors import QueryError, UnknownNameError
from graphstore.model import Side, TensorIO, TensorRef
from graphstore.traverse.topological_order import graph_arrays, topo_order


@pytest.fixture(scope="module")
def first(module_store: GraphStore) -> GraphStore:
    """A store with the run ``first``."""
    module_store.save_run(sample_run("first"))
    return module_store


def test_a_run_comes_back_equal(first: GraphStore) -> None:
    data = sample_run("first")
    assert first.run("first") == data.run
    assert first.runs() == [data.run]
    assert first.graph("first") == data.device
    assert first.graph("first", Side.GOLDEN) == data.golden
    assert first.states("first") == dict(data.states)
    assert list(first.states("first")) == topo_order(data.device)
    assert first.origins("first") == list(data.origins)
    assert repr(first.suspects("first")) == repr(list(data.suspects))
    assert first.findings("first") == list(data.findings)
    assert first.links("first") == list(data.links)
    assert [same(item) for item in first.comparisons("first")] == [
        same(item) for item in data.comparisons
    ]


def test_errors_of_outputs_are_those_of_the_comparisons(first: GraphStore) -> None:
    data = sample_run("first")
    outputs = [
        item
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and (item.compared or item.split is not None)
    ]
    assert [
        (one.op, one.port, one.compared, one.level, one.golden, repr(one.split))
        for one in output_errors(first, first.run("first"))
    ] == [
        (item.op, item.port, item.compared, item.level, item.golden, repr(item.split))
        for item in outputs
    ]


@pytest.mark.parametrize("side", Side)
def test_the_ops_that_make_a_tensor_are_found_by_its_name(first: GraphStore, side: Side) -> None:
    graph = sample_run("first").device if side is Side.DEVICE else sample_run("first").golden
    makers: dict[str, list[TensorRef]] = {"nobody's": []}
    for op in map(graph.op_index().__getitem__, topo_order(graph)):
        for port, tensor in enumerate(op.outputs):
            makers.setdefault(tensor.name, []).append(TensorRef(op.id, port))
    assert len(makers) > 2
    assert {name: first.makers("first", name, side) for name in makers} == makers


NAMED_BY_THEIR_TEXT = {
    "MATCH (o:Op) RETURN count(*)": ("count(*)",),
    "MATCH (o:Op) RETURN DISTINCT o.type, count( o ) AS n, o.topo % 2 ORDER BY n LIMIT 1": (
        *("o.type", "n", "o.topo % 2"),
    ),
    "MATCH (o:Op) WITH o.name AS `a b`, o.topo AS limit RETURN `a b`, limit, limit + 1 SKIP 1": (
        *("a b", "limit", "limit + 1"),
    ),
    "MATCH (o:Op) WHERE EXISTS { MATCH (o)-[:FEEDS]->(p:Op) } RETURN max(o.topo)": ("max(o.topo)",),
    "RETURN size([1, 2]) UNION RETURN 3 AS `size([1, 2])`": ("size([1, 2])",),
    "MATCH (o:Op) RETURN *": ("o",),
}


@pytest.mark.parametrize("cypher", NAMED_BY_THEIR_TEXT)
def test_columns_are_called_by_what_the_query_wrote(first: GraphStore, cypher: str) -> None:
    answer = first.query(cypher, QueryParameters(limit=1), "first")
    assert answer.columns == NAMED_BY_THEIR_TEXT[cypher]


def test_arrays_are_those_of_the_graph(first: GraphStore) -> None:
    data = sample_run("first")
    for side, graph in ((Side.DEVICE, data.device), (Side.GOLDEN, data.golden)):
        stored, expected = first.arrays("first", side), graph_arrays(graph)
        for part in dataclasses.fields(expected):
            left, right = getattr(stored, part.name), getattr(expected, part.name)
            assert list(left) == list(right), part.name


def test_an_op_is_found_by_the_tensor_it_makes(first: GraphStore) -> None:
    assert resolve_op(first, "first", "loop:0") == "loop"
    with pytest.raises(UnknownNameError, match="no op named 'loop:1'"):
        resolve_op(first, "first", "loop:1")


def test_some_ops_only(first: GraphStore) -> None:
    found = first.comparisons("first", ["pool", "conv"])
    assert [(item.op, item.io) for item in found] == [
        ("conv", TensorIO.OUTPUT),
        ("conv", TensorIO.INPUT),
        ("pool", TensorIO.OUTPUT),
    ]
    assert first.comparisons("first", []) == []
    with pytest.raises(UnknownNameError, match=r"no op named 'cnov'.*conv"):
        first.comparisons("first", ["cnov"])


def test_single_ops_come_back_equal(first: GraphStore) -> None:
    data = sample_run("first")
    ops = data.device.op_index()
    wanted = [data.device.ops[-1].id, "conv"]
    found = first.ops("first", [*wanted, "no such op"])
    assert found == {op: ops[op] for op in wanted}
    assert list(found) == wanted
    assert first.ops("first", ["conv"], Side.GOLDEN) == {"conv": data.golden.op_index()["conv"]}
    assert first.ops("first", []) == {}


def test_links_of_one_op_from_both_sides(first: GraphStore) -> None:
    data = sample_run("first")
    of_conv = [link for link in data.links if link.device == "conv"]
    assert first.links("first", "conv") == of_conv
    assert first.links("first", "trans") == []
    relu = [link for link in data.links if link.original == "block/relu"]
    assert first.links("first", "block/relu", Side.GOLDEN) == relu
    gone = [link for link in data.links if link.original == "gone"]
    assert first.links("first", "gone", Side.GOLDEN) == gone, "although no graph has this op"
    with pytest.raises(UnknownNameError):
        first.links("first", "nope")


def test_lineage_search_and_lists(first: GraphStore) -> None:
    lineage = first.named("lineage_of_device_op", "first", {"op": "conv"})
    assert [row[2] for row in lineage.rows] == ["conv", "block/bias", "block/relu"]
    assert lineage.rows[2][3:] == ("origin_output", 0, 0, 1.0)
    back = first.named("lineage_of_original_op", "first", {"op": "block/relu"})
    assert [row[1] for row in back.rows] == ["conv"]
    assert ops_of(first, "op_search", "first", text="POOL") == ["pool"]
    assert ops_of(first, "fused_ops", "first") == ["conv"]
    types = dict(first.named("ops_by_type", "first", {}).rows)
    assert types == {"Data": 2, "Conv2D": 1, "Cast": 1, "While": 1, "Pooling": 1, "Add": 1}
    reasons = dict(first.named("not_compared_by_reason", "first", {}).rows)
    assert set(reasons.values()) == {1}
    assert "inserted" in reasons
    worst = ops_of(first, "worst_tensors", "first", limit=5)
    assert worst == ["pool", "conv"], "NaN is worst"
    edges = first.named("graph_edges", "first", {})
    assert ("trans", 0, "body/in", 0, "trans:0", "call") in edges.rows
    assert ops_of(first, "graph_ops", "first") == list(first.arrays("first").ids)


def test_row_limits_cut_and_say_so(first: GraphStore) -> None:
    for query in list_queries():
        params = sample_parameters(query.parameters)
        whole = first.named(query.name, "first", params)
        one = first.named(query.name, "first", params, limit=1)
        assert one.rows == whole.rows[:1], query.name
        assert one.truncated == (len(whole.rows) > 1), query.name
        assert not first.named(query.name, "first", params, limit=len(whole.rows)).truncated


def test_wrong_parameters_and_names(first: GraphStore) -> None:
    with pytest.raises(QueryError, match=r"takes \$op, not no parameters"):
        first.named("descendants", "first", {})
    with pytest.raises(QueryError, match=r"takes no parameters, not \$x"):
        first.named("runs", "first", {"x": 1})
    with pytest.raises(QueryError, match=r"\$limit is a whole number, not 'five'"):
        first.named("worst_tensors", "first", {"limit": "five"})
    with pytest.raises(UnknownNameError, match=r"no query named 'descendant'.*descendants"):
        first.named("descendant", "first", {})
    for query in ("descendants", "lineage_of_device_op"):
        with pytest.raises(UnknownNameError, match=r"no op named 'cnv'.*conv"):
            first.named(query, "first", {"op": "cnv"})


@pytest.mark.parametrize("query", [query.name for query in list_queries()])
def test_the_text_says_what_the_store_answers(first: GraphStore, query: str) -> None:
    params = sample_parameters(load(query, first.dialect).parameters)
    answer = first.named(query, "first", params)
    if query in ON_ARRAYS:
        assert by_cypher(first, query, "first", **params) == answer
    assert answer.columns
    assert all(len(row) == len(answer.columns) for row in answer.rows)


def test_roles_with_their_numbers(first: GraphStore) -> None:
    answer = first.named("roles", "first", {})
    rows = {row[1]: dict(zip(answer.columns, row, strict=True)) for row in answer.rows}
    assert rows["conv"]["role"] == "introduces"
    assert (rows["conv"]["introduced"], rows["conv"]["suspicion"]) == (0.5, 5000.0)
    assert rows["pool"]["role"] == "amplifies"
    assert rows["pool"]["propagated"] == math.inf


def test_guilty_ops_come_before_suspects(first: GraphStore) -> None:
    answer = first.named("guilty_ops", "first", {})
    assert [(row[1], row[4]) for row in answer.rows] == [("conv", "guilty"), ("pool", "suspect")]
    assert answer.rows[0][-2:] == ("rounding", ["conv", "block/bias", "block/relu"])


def test_amplifying_ops(first: GraphStore) -> None:
    found = first.named("amplifying_ops", "first", {"times": 2})
    assert [(row[1], row[5]) for row in found.rows] == [("pool", 2.5)]
    assert not first.named("amplifying_ops", "first", {"times": 3}).rows


def test_findings_in_words(first: GraphStore) -> None:
    answer = first.named("findings", "first", {})
    assert [row[1] for row in answer.rows] == ["deep_overflow", "unknown_op", "lost_bias", "stale"]
    assert answer.rows[1][2] == "gone"
    assert answer.rows[2][2:5] == ("conv", 0, 0.75)
