"""Parts chosen of a graph whose ops stay in the store are those chosen of the whole graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered_run import made_run

from divergraph.submodel.part_graph import StoredPartGraph, WholeGraph, is_plain
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import SelectionRequest, TensorFacts
from divergraph.submodel.smallest_boundary import smallest_boundary
from divergraph.submodel.stored_graphs import StoredGraphs
from graphstore.columns.listed_ops import GraphColumns
from graphstore.errors import InputError
from graphstore.model import (
    Constant,
    DType,
    Framework,
    GraphKind,
    InputRef,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Side,
    Tensor,
    TensorRef,
)
from graphstore.open_store import open_store
from graphstore.schema.graph_outline import graph_outline
from graphstore.schema.op_blocks import op_blocks
from graphstore.schema.output_columns import OutputColumns
from graphstore.traverse.edge_columns import edge_columns, places

TYPES = ("Relu", "Const", "Placeholder", "PlaceHolder", "ReadVariableOp", "Shape", "RandomUniform")
INPUTS, WEIGHTS = ("x", "y"), ("w0", "w1", "w2")


@st.composite
def graphs(draw, framework=Framework.ONNX) -> ModelGraph:
    """Ops that read others, inputs of the model and weights, of types the boundary looks at."""
    ops: list[Op] = []
    for place in range(draw(st.integers(2, 12))):
        before = st.tuples(st.integers(0, max(0, place - 1)), st.integers(0, 1))
        made = draw(st.lists(before, max_size=3)) if place else []
        given_names = draw(st.lists(st.sampled_from((*INPUTS, *WEIGHTS)), max_size=2))
        inputs: list[InputRef | None] = [
            InputRef(f"n{op}:{port}", TensorRef(f"n{op}", port)) for op, port in made
        ]
        inputs += [InputRef(name) for name in given_names]
        inputs += [None] * draw(st.integers(0, 1))
        shapes = draw(st.lists(st.sampled_from(((2, 3), None)), min_size=2, max_size=2))
        kind = draw(st.sampled_from(TYPES))
        attrs = {"parentOpType": draw(st.sampled_from(("Const", "Data")))}
        outputs = tuple(
            Tensor(f"n{place}:{port}", DType.FLOAT32, shape) for port, shape in enumerate(shapes)
        )
        name = draw(st.sampled_from((f"n{place}", "other")))
        ops.append(Op(f"n{place}", name, kind, tuple(inputs), (), outputs, attrs, sequence=place))
    ends = draw(st.sets(st.sampled_from([op.id for op in ops]), max_size=2))
    return ModelGraph(
        "g",
        GraphKind.ORIGINAL,
        framework,
        "made",
        tuple(ops),
        inputs=tuple(Tensor(name, DType.FLOAT32, (2, 3)) for name in INPUTS),
        outputs=tuple(TensorRef(op, 0) for op in sorted(ends)),
        constants=tuple(Constant(Tensor(name, DType.FLOAT32, (3,))) for name in WEIGHTS),
    )


def columns_of(graph: ModelGraph) -> GraphColumns:
    """What a store hands out of *graph* without its ops."""
    header = replace(graph, ops=())
    edges = edge_columns(graph, places(graph))
    blocks = [packed for _, packed in op_blocks(graph.ops, edges, OutputColumns.of(graph.ops))]
    found = graph_outline(header, blocks)
    return GraphColumns(header, found.names, found.types, found.arrays, found.given, found.exact)


def facts(key: TensorRef | str) -> TensorFacts:
    """Every third tensor was dumped."""
    return TensorFacts(dumped=len(str(key)) % 3 > 0, shape=None)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_the_same_parts_are_chosen(graph, data):
    by_id = graph.op_index()
    columns = columns_of(graph)
    made = [
        (output.name, TensorRef(op, port))
        for op in columns.arrays.ids
        for port, output in enumerate(by_id[op].outputs)
    ]
    stored = StoredPartGraph(
        columns,
        lambda ops: {op: by_id[op] for op in ops},
        lambda tensor: [output for name, output in made if name == tensor],
    )
    whole = WholeGraph(graph)
    assert stored.constants == whole.constants
    assert stored.arrays.ids == whole.arrays.ids
    names = st.lists(st.sampled_from(list(by_id)), min_size=1, max_size=2, unique=True)
    starts, ends = data.draw(names), data.draw(names)
    groups = {"fused": data.draw(st.lists(st.sampled_from(list(by_id)), max_size=4, unique=True))}
    wish = SelectionRequest(
        groups, data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.booleans())
    )
    few, all_of_them = Selector(stored, facts), Selector(whole, facts)
    part = all_of_them.between(starts, ends, wish)
    assert few.between(starts, ends, wish) == part
    assert few.hull(starts, wish) == all_of_them.hull(starts, wish)
    assert few.taken(starts[0]) == all_of_them.taken(starts[0])
    assert smallest_boundary(few, part, wish) == smallest_boundary(all_of_them, part, wish)
    assert stored.named("other") == sorted(whole.named("other"), key=whole.arrays.number.get)
    for name, _ in made:
        assert stored.makers(name) == sorted(whole.makers(name), key=whole.arrays.number.get)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_columns_find_the_boundary_of_large_parts_too(graph, data):
    chosen = set(data.draw(st.sets(st.sampled_from([op.id for op in graph.ops]), min_size=1)))
    boundaries = Selector(graph)._boundaries
    few = boundaries._taking_from_outside(chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divergraph.submodel.boundary._FEW", 0)
        assert boundaries._taking_from_outside(chosen) == few


def test_graphs_with_loops_are_read_whole():
    ops = tuple(
        Op(name, name, kind, (InputRef(f"{fed}:0", TensorRef(fed, 0)),), (), (Tensor(f"{name}:0"),))
        for name, kind, fed in (("a", "Add", "b"), ("b", "Relu", "a"))
    )
    graph = ModelGraph("g", GraphKind.ORIGINAL, Framework.ONNX, "made", ops)
    assert not is_plain(columns_of(graph))
    frames = replace(graph, framework=Framework.TENSORFLOW, ops=(Op("e", "e", "Enter"),))
    assert not is_plain(columns_of(frames))
    assert is_plain(columns_of(replace(frames, ops=(Op("e", "e", "Relu"),))))


@pytest.mark.parametrize("loose", [False, True])
def test_a_run_in_a_store_links_the_same_ops(tmp_path, monkeypatch, loose):
    """What stands for what, in saved order, links to ops of no graph among them."""
    data = made_run()
    first, second = data.golden.ops[0].id, data.golden.ops[1].id
    device = data.device.ops[2].id
    more = [LineageLink(device, first, LineageRule.ORIGINAL_NAMES)]
    more += [LineageLink(device, second, LineageRule.ORIGIN_OUTPUT, 0, 0)]
    more += [LineageLink(data.device.ops[3].id, first, LineageRule.ORIGIN_OUTPUT, 0, 0)]
    if loose:
        more += [LineageLink(device, "gone", LineageRule.ORIGINAL_NAMES)]
        more += [LineageLink("lost", second, LineageRule.ORIGINAL_NAMES)]
    data = replace(data, links=(*data.links, *more))
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(data)
        kept = LinkedGraphs(store.run_data(data.run.name))
        stored = StoredGraphs(lambda question: question(store), data.run.name)
        assert dict(stored.originals) == dict(kept.originals)
        assert dict(stored.stands_for) == dict(kept.stands_for)
        assert dict(stored.fused) == dict(kept.fused)
        assert stored.last_standing().tolist() == kept.last_standing().tolist()
        every = [op.id for op in data.golden.ops]
        assert stored.device_ops(every) == kept.device_ops(every)
        monkeypatch.setattr("divergraph.submodel.stored_graphs._FEW", 0)
        assert stored.device_ops(every[::2]) == kept.device_ops(every[::2])
        ids = [op.id for op in data.device.ops]
        assert list(map(stored.first_original, ids)) == list(map(kept.first_original, ids))
        for start, end in zip(ids[:12], ids[6:18], strict=True):
            wish = SelectionRequest(data=False)
            answers = []
            for graphs_of_run in (kept, stored):
                try:
                    found = graphs_of_run.select([start], [end], wish, Side.DEVICE)
                except InputError as error:
                    found = str(error)
                answers.append(found)
            assert answers[0] == answers[1]
