"""ONNX models: names, bodies, constants, shapes, and damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from damaged_files import changed, endings
from onnx import TensorProto, helper, numpy_helper
from onnx_nodes import branch, node, value

from graphstore.errors import ImportFormatError
from graphstore.model import Constant, DType, Framework, GraphKind, InputRef, Tensor, TensorRef
from importers.registry import read_graph


def test_a_model_is_an_original_graph(onnx_graph):
    weights = numpy_helper.from_array(np.ones((3, 4), np.float16), "w")
    graph = onnx_graph(
        [
            node("Cast", "x", "h", "cast", to=TensorProto.FLOAT16),
            node("MatMul", "h w", "y", "mm"),
            node("Relu", "y", "z", "act"),
        ],
        [value("x")],
        [value("z", (2, 4), TensorProto.FLOAT16)],
        [weights],
        opset_imports=[helper.make_opsetid("", 13)],
    )
    assert (graph.name, graph.kind, graph.framework) == (
        "net",
        GraphKind.ORIGINAL,
        Framework.ONNX,
    )
    assert [op.id for op in graph.ops] == ["cast", "mm", "act"]
    assert graph.ops[1].inputs == (InputRef("h", TensorRef("cast", 0)), InputRef("w"))
    assert graph.ops[1].outputs == (Tensor("y", DType.FLOAT16, (2, 4)),)
    assert graph.constants == (Constant(Tensor("w", DType.FLOAT16, (3, 4)), nbytes=24),)
    assert graph.inputs == (Tensor("x", DType.FLOAT32, (2, 3)),)
    assert graph.outputs == (TensorRef("act", 0),)
    assert graph.attrs["opset ai.onnx"] == 13
    assert graph.warnings == ()


def test_old_models_list_initializers_among_the_inputs(onnx_graph):
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = onnx_graph(
        [node("Add", "x w", "y", "add")],
        [value("x"), value("w", (3,))],
        [value("y")],
        [weights],
        opset_imports=[helper.make_opsetid("", 7)],
        ir_version=3,
    )
    assert [tensor.name for tensor in graph.inputs] == ["x"]


def test_unnamed_nodes_get_names_that_are_free(onnx_graph):
    graph = onnx_graph(
        [node("Relu", "x", "a", "Relu_1"), node("Relu", "a", "b"), node("Relu", "b", "y")],
        [value("x")],
        [value("y")],
    )
    assert [op.name for op in graph.ops] == ["Relu_1", "Relu_1_1", "Relu_2"]
    assert graph.warnings == ("2 nodes have no name and were given one: Relu_1_1, Relu_2",)


def test_repeated_node_names_get_ids_of_their_own(onnx_graph):
    graph = onnx_graph(
        [node("Relu", "x", "a", "same"), node("Abs", "a", "y", "same")], [value("x")], [value("y")]
    )
    assert [(op.id, op.name) for op in graph.ops] == [("same", "same"), ("same#2", "same")]
    assert graph.ops[1].inputs[0].producer == TensorRef("same", 0)
    assert "1 repeated op name was" in graph.warnings[0]


def test_omitted_optional_inputs_keep_their_place(onnx_graph):
    high = numpy_helper.from_array(np.array(6, np.float32), "high")
    graph = onnx_graph([node("Clip", "x  high", "y", "clip")], [value("x")], [value("y")], [high])
    assert graph.ops[0].inputs == (InputRef("x"), None, InputRef("high"))


def test_attributes_are_small_and_json_able(onnx_graph):
    tensor = numpy_helper.from_array(np.zeros((300, 300), np.float32))
    graph = onnx_graph(
        [
            node("Constant", "", "c", "const", value=tensor),
            node("Custom", "x", "y", "custom", domain="my.ops", axis=-1, alpha=0.5, mode="fast"),
            node("Custom", "y", "z", "long", domain="my.ops", table=list(range(5000)), pads=[1, 2]),
        ],
        [value("x")],
        [value("z")],
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("my.ops", 1)],
    )
    const, custom, long = (dict(op.attrs) for op in graph.ops)
    assert const == {"value": "tensor float32[300,300]"}
    assert custom == {"domain": "my.ops", "axis": -1, "alpha": 0.5, "mode": "fast"}
    assert long == {"domain": "my.ops", "table": "list of 5000", "pads": (1, 2)}
    assert json.dumps([const, custom, long])


def test_shapes_that_are_left_out_are_inferred(onnx_graph):
    big = numpy_helper.from_array(np.zeros((3, 2000), np.float32), "w")
    shape = numpy_helper.from_array(np.array([4000], np.int64), "shape")
    graph = onnx_graph(
        [
            node("MatMul", "x w", "a", "mm"),
            node("Reshape", "a shape", "b", "r"),
            node("Abs", "b", "y", "abs"),
        ],
        [value("x")],
        [value("y", None)],
        [big, shape],
        opset_imports=[helper.make_opsetid("", 13)],
    )
    assert [op.outputs[0].shape for op in graph.ops] == [(2, 2000), (4000,), (4000,)]
    assert graph.constants[0].nbytes == 3 * 2000 * 4


def test_unknown_dimensions(onnx_graph):
    graph = onnx_graph(
        [node("Abs", "x", "y", "abs"), node("Abs", "s", "t", "abs2")],
        [value("x", ("batch", 3, None)), value("s", None)],
        [value("y", ("batch", 3, None)), value("t", None)],
    )
    assert [tensor.shape for tensor in graph.inputs] == [(None, 3, None), None]


def test_a_model_that_cannot_be_inferred_is_read_all_the_same(onnx_graph):
    graph = onnx_graph(
        [node("MatMul", "x x", "a", "mm"), node("Abs", "a", "y", "abs")],
        [value("x")],
        [value("y", (7, 7, 7))],
        opset_imports=[helper.make_opsetid("", 9999)],
    )
    assert len(graph.ops) == 2


def test_external_values_stay_outside(tmp_path):
    weights = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    small = numpy_helper.from_array(np.ones((4, 256), np.float32), "b")
    graph = helper.make_graph(
        [node("MatMul", "x w", "h", "mm"), node("Add", "h b", "y", "add")],
        "net",
        [value("x", (4, 256))],
        [value("y", (4, 256))],
        [weights, small],
    )
    path = tmp_path / "big.onnx"
    onnx.save_model(
        helper.make_model(graph),
        path,
        save_as_external_data=True,
        location="big.data",
        size_threshold=0,
    )
    (tmp_path / "big.data").unlink()
    first, second = read_graph(path).constants
    assert (first.location, first.nbytes) == ("big.data", 256 * 256 * 4)
    assert (second.location, second.nbytes) == ("big.data", 4 * 256 * 4)
    assert second.offset >= first.nbytes


def test_quantised_and_small_types(onnx_graph):
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(0, np.int8), "zero")
    graph = onnx_graph(
        [
            node("QuantizeLinear", "x scale zero", "q", "q"),
            node("DequantizeLinear", "q scale zero", "y", "dq"),
        ],
        [value("x")],
        [value("y")],
        [scale, zero],
        opset_imports=[helper.make_opsetid("", 13)],
    )
    assert graph.ops[0].outputs[0].dtype is DType.INT8


@pytest.mark.parametrize("number", sorted(TensorProto.DataType.values()))
def test_every_onnx_type_has_a_name(onnx_graph, number):
    graph = onnx_graph(
        [node("Identity", "x", "y", "id")], [value("x", (1,), number)], [value("y", (1,), number)]
    )
    assert (graph.inputs[0].dtype is None) == (number == TensorProto.UNDEFINED)


def test_an_input_nobody_makes_is_told(onnx_graph):
    graph = onnx_graph([node("Abs", "ghost", "y", "abs")], [value("x")], [value("y"), value("x")])
    assert graph.ops[0].inputs == (InputRef("ghost"),)
    assert "1 input is made by no node: ghost of abs" in graph.warnings
    assert any("passed through: x" in line for line in graph.warnings)


def test_a_tensor_two_nodes_make_is_told(onnx_graph):
    nodes = [node("Abs", "x", "y", "abs"), node("Neg", "x", "y", "neg")]
    graph = onnx_graph(nodes, [value("x")], [value("y")])
    assert "1 tensor is made by a second node, too: y" in graph.warnings


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_cut_model(tmp_path, cut):
    weights = numpy_helper.from_array(np.ones((50, 50), np.float32), "w")
    graph = helper.make_graph([node("Abs", "x", "y")], "net", [value("x")], [value("y")], [weights])
    data = helper.make_model(graph).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(ImportFormatError) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


def test_another_protobuf_is_no_model(tmp_path):
    path = tmp_path / "tensor.onnx"
    path.write_bytes(numpy_helper.from_array(np.ones(3, np.float32), "w").SerializeToString())
    with pytest.raises(ImportFormatError):
        read_graph(path)
    path.write_bytes(onnx.ModelProto(ir_version=8, producer_name="pytorch").SerializeToString())
    with pytest.raises(ImportFormatError, match="no ONNX graph"):
        read_graph(path)


@pytest.mark.slow
def test_any_damaged_byte_ends_in_a_graph_or_an_error(tmp_path):
    then, other = branch("t", "a", 1), branch("e", "x", 2)
    nodes = [
        node("Abs", "x", "a", "abs"),
        node("If", "cond", "y", "if", then_branch=then, else_branch=other),
        node("Conv", "y w", "z", "conv", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    ]
    inputs = [value("x"), value("cond", (), TensorProto.BOOL)]
    weights = [numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")]
    graph = helper.make_graph(nodes, "net", inputs, [value("z", None)], weights)
    data = helper.make_model(graph).SerializeToString()
    path = tmp_path / "model.onnx"
    rng = random.Random(11)
    contents = (changed(data, rng, bytes_=rng.choice((1, 1, 3))) for _ in range(1000))
    assert endings(path, contents) == {"read", "refused"}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "ops", "first", "last"),
    [
        ("aasist_bs1_ori.onnx", 428, "Unsqueeze_0", "Gemm_2292"),
        ("aasist_bs1_qdq_int8.onnx", 1369, None, None),
        ("aasist_bs1_fp16.onnx", 452, None, None),
    ],
)
def test_the_real_models(shared_data: Path, file, ops, first, last):
    graph = read_graph(shared_data / "onnx" / file)
    assert len(graph.ops) == len(graph.op_index()) == ops
    assert first in (None, graph.ops[0].name)
    assert last in (None, graph.ops[-1].name)
    assert all(tensor.dtype for op in graph.ops for tensor in op.outputs)
    known = graph.op_index()
    assert all(edge.source in known and edge.target in known for edge in graph.edges())
