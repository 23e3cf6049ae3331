"""Ops in compressed blocks: whatever a graph holds comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.model import (
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorOrigin,
    TensorRef,
)
from graphstore.schema.graph_outline import graph_outline
from graphstore.schema.op_blocks import BLOCK, OpReader, attrs_of, op_blocks, ops_of_blocks
from graphstore.schema.output_columns import OutputColumns
from graphstore.traverse.edge_columns import edge_columns, places
from graphstore.traverse.topological_order import graph_arrays

NAMES = st.sampled_from(["a", "b", "c/d", "gone", "ä", "with:0"])
SHAPES = st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3).map(tuple)
DTYPES = st.none() | st.sampled_from([DType.FLOAT16, DType.INT8])
ORIGINS = st.none() | st.builds(TensorOrigin, NAMES, st.integers(0, 2), st.none(), DTYPES, SHAPES)
PRODUCERS = st.none() | st.builds(TensorRef, NAMES, st.integers(-1, 2))
TENSOR_NAMES = NAMES | st.sampled_from(["a:0", "b:0", "b:1", "c/d:0"])
INPUTS = st.none() | st.builds(InputRef, TENSOR_NAMES, PRODUCERS)
TENSORS = st.builds(Tensor, TENSOR_NAMES, DTYPES, SHAPES, st.none() | st.just("ND"), ORIGINS)
ATTRS = st.dictionaries(NAMES, st.integers() | st.text() | st.booleans(), max_size=2)


@st.composite
def graphs(draw: st.DrawFn) -> ModelGraph:
    ops = []
    for name in draw(st.permutations(["a", "b", "c/d", "ä", "with:0"])):
        kept = Op(
            name,
            draw(st.sampled_from([name, "other"])),
            "Add",
            tuple(draw(st.lists(INPUTS, max_size=3))),
            tuple(draw(st.lists(NAMES, max_size=1))),
            tuple(draw(st.lists(TENSORS, max_size=3))),
            draw(ATTRS),
            owns=tuple(draw(st.lists(NAMES, max_size=1))),
            original_names=draw(st.none() | st.lists(NAMES, max_size=2).map(tuple)),
            sequence=draw(st.integers(-5, 5)),
        )
        ops.append(kept)
    return graph_of(ops)


def graph_of(ops: list[Op]) -> ModelGraph:
    return ModelGraph("made", GraphKind.DEVICE, Framework.ONNX, "made", tuple(ops))


def blocks_of(graph: ModelGraph) -> list[bytes]:
    edges = edge_columns(graph, places(graph))
    return [data for _, data in op_blocks(graph.ops, edges, OutputColumns.of(graph.ops))]


@pytest.mark.slow
@given(graphs())
def test_all_ops_come_back(graph: ModelGraph) -> None:
    blocks = blocks_of(graph)
    assert tuple(ops_of_blocks(blocks)) == graph.ops


@pytest.mark.slow
@given(graphs())
def test_names_and_edges_are_read_without_the_ops(graph: ModelGraph) -> None:
    outline = graph_outline(replace(graph, ops=()), blocks_of(graph))
    expected = graph_arrays(graph)
    assert outline.arrays.ids == expected.ids
    for name in ("successor_start", "successor_ops", "predecessor_start", "predecessor_ops"):
        assert getattr(outline.arrays, name).tolist() == getattr(expected, name).tolist()
    ops = graph.op_index()
    assert outline.names == [ops[op].name for op in expected.ids]
    assert outline.types == [ops[op].type for op in expected.ids]


def chain(length: int) -> ModelGraph:
    """Each op reads the one before it, and the one three blocks before."""
    refs = [InputRef(f"op{number}:0", TensorRef(f"op{number}", 0)) for number in range(length)]
    ops = []
    for number, ref in enumerate(refs):
        read = [refs[place] for place in (number - 1, number - 3 * BLOCK) if place >= 0]
        outputs = (Tensor(ref.tensor, DType.FLOAT32, (8, 8)),)
        attrs = {"axis": number % 3}
        name = f"op{number}"
        ops.append(Op(name, name, "Add", tuple(read), (), outputs, attrs, sequence=number))
    return graph_of(ops)


def test_ops_come_back_one_by_one_and_only_their_blocks_are_read() -> None:
    graph = chain(5 * BLOCK + 7)
    blocks = blocks_of(graph)
    assert len(blocks) == 6
    for number in (0, BLOCK - 1, BLOCK, 4 * BLOCK, 5 * BLOCK + 6):
        asked: list[int] = []

        def block(first: int, asked: list[int] = asked) -> bytes:
            asked.append(first)
            return blocks[first // BLOCK]

        reader = OpReader(block)
        needed = reader.needed(number)
        assert reader.op(number) == graph.ops[number]
        assert set(asked) == needed | {number - number % BLOCK}


def test_attributes_are_written_as_json_for_each_op() -> None:
    graph = chain(BLOCK + 3)
    texts = attrs_of(graph.ops, {})
    assert texts == [f'{{"axis":{number % 3}}}' for number in range(len(graph.ops))]


def test_layers_that_repeat_take_almost_no_space() -> None:
    graph = chain(8 * BLOCK)
    assert sum(map(len, blocks_of(graph))) < 12 * len(graph.ops)
