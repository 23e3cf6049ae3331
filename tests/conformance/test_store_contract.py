"""What every store promises: what was saved comes back equal, in the promised order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphstore.contract import GraphStore, QueryParameters
from graphstore.errors import InputError, QueryError, UnknownNameError
from graphstore.model import EdgeKind, GraphKind, OpState, Side
from graphstore.traverse.topological_order import topo_order


def test_an_imported_graph_comes_back_equal(store: GraphStore, sample_run) -> None:
    graph = sample_run("x").device
    info = store.save_graph(graph, "mine")
    assert (info.name, info.id, info.ops, info.subgraphs, info.fused_ops) == (
        "mine",
        graph.id,
        len(graph.ops),
        1,
        1,
    )
    assert info.edges == sum(edge.kind is not EdgeKind.CALL for edge in graph.edges())
    assert store.graphs() == [info]
    assert store.runs() == []
    assert store.graph("mine") == graph
    assert store.graph("mine", Side.GOLDEN) == graph, "an imported graph has one side"


def test_an_imported_graph_lists_its_ops_without_results(store: GraphStore, sample_run) -> None:
    graph = sample_run("x").device
    store.save_graph(graph, "mine")
    (listed,) = store.listed_ops("mine")
    assert list(store.arrays("mine").ids) == topo_order(graph)
    assert list(listed.types) == [graph.op_index()[op].type for op in topo_order(graph)]
    assert set(listed.partners) == {()}
    assert listed.results is None
    with pytest.raises(UnknownNameError):
        list(store.listed_ops("nobody"))


def test_names_are_taken_once(store: GraphStore, sample_run) -> None:
    data = sample_run("first")
    store.save_run(data)
    with pytest.raises(InputError, match="--replace"):
        store.save_run(data)
    with pytest.raises(InputError, match="a run named 'first' already"):
        store.save_graph(data.device, "first", replace=True)
    store.save_graph(data.device, "mine")
    with pytest.raises(InputError, match="--replace"):
        store.save_graph(data.golden, "mine")
    assert len(store.runs()) == len(store.graphs()) == 1


@pytest.mark.slow
def test_replacing_leaves_only_the_new_run(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("first"))
    store.save_run(sample_run("other"))
    assert store.states("first")["conv"] is OpState.ORIGIN
    data = sample_run("first", "2026-02-02T00:00:00Z")
    clean = replace(data, states={**data.states, "conv": OpState.CLEAN}, origins=())
    store.save_run(clean, replace=True)
    assert [run.name for run in store.runs()] == ["other", "first"]
    assert store.states("first")["conv"] is OpState.CLEAN
    assert store.origins("first") == []
    assert len(store.comparisons("first")) == len(data.comparisons)
    assert store.states("other")["conv"] is OpState.ORIGIN
    metrics = store.query("MATCH (m:Metric) RETURN count(*)", QueryParameters())
    assert metrics.rows == ((2 * len(data.comparisons),),)


def test_replacing_a_graph(store: GraphStore, sample_run) -> None:
    data = sample_run("x")
    store.save_graph(data.device, "mine")
    store.save_graph(data.golden, "mine", replace=True)
    assert store.graph("mine") == data.golden
    assert [info.framework for info in store.graphs()] == ["tensorflow"]
    ops = store.query("MATCH (o:Op) RETURN count(*)", QueryParameters())
    assert ops.rows == ((len(data.golden.ops),),)


@pytest.mark.slow
def test_deleting_leaves_what_others_use(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("first"))
    store.save_run(sample_run("second"))
    store.save_graph(sample_run("x").device, "mine")
    store.delete("first")
    assert [run.name for run in store.runs()] == ["second"]
    with pytest.raises(UnknownNameError):
        store.graph("first")
    assert store.graph("second") == sample_run("x").device
    store.delete("second")
    store.delete("mine")
    assert store.runs() == []
    assert store.graphs() == []
    with pytest.raises(UnknownNameError):
        store.delete("mine")


def test_both_sides_may_be_one_graph(store: GraphStore, sample_run) -> None:
    """An ONNX model against itself, float32 against float16 dumps."""
    data = sample_run("first")
    same_graph = replace(data, golden=data.device, links=())
    store.save_run(same_graph)
    assert store.graph("first", Side.GOLDEN) == store.graph("first") == data.device


@pytest.mark.slow
def test_two_graphs_of_one_id_stay_apart(store: GraphStore, sample_run) -> None:
    """Same name and content hash of the source, but read as the other side."""
    data = sample_run("first")
    twin = replace(data.device, kind=GraphKind.ORIGINAL, warnings=("read as original",))
    assert twin.id == data.device.id
    store.save_run(replace(data, golden=twin, links=()))
    store.save_graph(twin, "mine")
    assert store.graph("first") == data.device
    assert store.graph("first", Side.GOLDEN) == twin
    assert store.graph("mine") == twin
    merged = store.query(
        "MATCH (g:Graph) RETURN DISTINCT g.kind ORDER BY g.kind", QueryParameters()
    )
    assert merged.rows == (("device",), ("original",))


@pytest.mark.slow
def test_runs_are_listed_oldest_first(store: GraphStore, sample_run) -> None:
    for name, day in (("b", "03"), ("c", "01"), ("a", "03")):
        store.save_run(sample_run(name, f"2026-01-{day}T00:00:00Z"))
    assert [run.name for run in store.runs()] == ["c", "a", "b"]


def test_unknown_targets_name_what_is_near(store: GraphStore, sample_run) -> None:
    store.save_run(sample_run("resnet"))
    for ask in (store.graph, store.arrays, store.delete):
        with pytest.raises(UnknownNameError) as caught:
            ask("resnt")
        assert caught.value.near == ("resnet",)
    store.save_graph(sample_run("x").device, "mine")
    for ask in (store.run, store.states, store.comparisons, store.origins, store.links):
        with pytest.raises(UnknownNameError, match="no run"):
            ask("mine")


def test_an_empty_store_is_empty(store: GraphStore) -> None:
    assert store.runs() == []
    assert store.graphs() == []
    with pytest.raises(UnknownNameError):
        store.run("first")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "..\\x", "a\nb", "a\0", " a", ".hidden", "-x", "x" * 300]
)
def test_names_that_are_no_names(store: GraphStore, name: str, sample_run) -> None:
    store.save_graph(sample_run("x").device, "mine")
    with pytest.raises(InputError):
        store.save_graph(sample_run("x").device, name)
    with pytest.raises(UnknownNameError):
        store.graph(name)
    assert [info.name for info in store.graphs()] == ["mine"]


def test_names_may_have_any_letters(store: GraphStore, sample_run) -> None:
    name = 'Lauf 1: größe\'n "x" `y` $z'
    store.save_run(sample_run(name))
    assert [run.name for run in store.runs()] == [name]
    assert store.states(name)["conv"] is OpState.ORIGIN


def test_a_run_must_be_complete(store: GraphStore, sample_run) -> None:
    data = sample_run("first")
    with pytest.raises(ValueError, match=r"every device op needs a comparison.*'x'"):
        store.save_run(replace(data, comparisons=data.comparisons[1:]))
    with pytest.raises(ValueError, match="every device op needs a state"):
        store.save_run(replace(data, states={}))
    assert store.runs() == []


class TestQuery:
    """The user's own Cypher."""

    @pytest.mark.slow
    def test_one_target_or_all(self, store: GraphStore, sample_run) -> None:
        store.save_run(sample_run("first"))
        store.save_run(sample_run("second"))
        store.save_graph(sample_run("x").golden, "mine")
        count = "MATCH (m:Metric {run: $run}) RETURN count(*) AS metrics"
        answer = store.query(count, QueryParameters(), "second")
        assert answer.columns == ("metrics",)
        assert answer.rows == ((8,),)
        runs = "MATCH (r:Run) RETURN r.name ORDER BY r.name"
        assert store.query(runs, QueryParameters()).rows == (("first",), ("second",))
        graphs = "MATCH (g:Graph) RETURN count(*)"
        assert store.query(graphs, QueryParameters()).rows == ((2,),), "shared graphs are one"
        store.delete("first")
        assert store.query(runs, QueryParameters()).rows == (("second",),)

    def test_the_row_limit_is_told(self, store: GraphStore, sample_run) -> None:
        store.save_run(sample_run("first"))
        ops = "MATCH (o:Op {graph: $device}) RETURN o.name ORDER BY o.topo"
        answer = store.query(ops, QueryParameters(limit=3), "first")
        assert (len(answer.rows), answer.truncated) == (3, True)
        answer = store.query(ops, QueryParameters(limit=7), "first")
        assert (len(answer.rows), answer.truncated) == (7, False)

    def test_parameters_and_values(self, store: GraphStore, sample_run) -> None:
        store.save_run(sample_run("first"))
        answer = store.query(
            "MATCH (o:Op {name: $op}) WHERE o.graph = $device "
            "RETURN o, o.originals AS n, $list AS l",
            QueryParameters({"op": "conv", "list": [1, 2]}),
            "first",
        )
        node, originals, given_list = answer.rows[0]
        assert (node["_label"], node["type"], originals) == ("Op", "Conv2D", 3)
        assert given_list == [1, 2]

    def test_a_wrong_query_says_where(self, store: GraphStore, sample_run) -> None:
        store.save_run(sample_run("first"))
        with pytest.raises(QueryError) as caught:
            store.query("MATCH (o:Op)\nRETURN o ORDER o", QueryParameters(), "first")
        assert caught.value.position is not None
        assert 20 <= caught.value.position <= 29

    def test_writing_is_refused(self, store: GraphStore, sample_run) -> None:
        store.save_run(sample_run("first"))
        with pytest.raises(QueryError, match="SET is not allowed"):
            store.query("MATCH (o:Op) SET o.name = 'x'", QueryParameters(), "first")
        assert store.graph("first") == sample_run("first").device

    @pytest.mark.slow
    def test_a_long_query_is_stopped(self, store: GraphStore, shaped_run) -> None:
        names = [f"op{number}" for number in range(300)]
        store.save_run(shaped_run("wide", [], dict.fromkeys(names, False)))
        product = (
            "MATCH (a:Op), (b:Op), (c:Op), (d:Op), (e:Op) "
            "RETURN sum(a.topo * b.topo + c.topo * d.topo + e.topo)"
        )
        with pytest.raises(QueryError, match=r"longer than 0\.5 s"):
            store.query(product, QueryParameters(timeout=0.5), "wide")
