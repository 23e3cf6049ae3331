"""ONNX models: names, bodies, constants, shapes, and damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphstore.errors import ImportFormatError
from graphstore.model import (
    Constant,
    DType,
    EdgeKind,
    Framework,
    GraphKind,
    InputRef,
    Tensor,
    TensorRef,
)
from importers import read_graph

FLOAT = TensorProto.FLOAT


def value(name: str, shape=(2, 3), dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attrs):
    return helper.make_node(op_type, inputs.split(" "), outputs.split(" "), name=name, **attrs)


@pytest.fixture
def graph_of(tmp_path):
    def read(nodes, inputs=(), outputs=(), initializers=(), **model):
        graph = helper.make_graph(nodes, "net", inputs, outputs, initializers)
        path = tmp_path / "model.onnx"
        made = helper.make_model(graph, **model)
        path.write_bytes(made.SerializeToString())
        return read_graph(path)

    return read


def test_a_model_is_an_original_graph(graph_of):
    weights = numpy_helper.from_array(np.ones((3, 4), np.float16), "w")
    graph = graph_of(
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


def test_old_models_list_initializers_among_the_inputs(graph_of):
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = graph_of(
        [node("Add", "x w", "y", "add")],
        [value("x"), value("w", (3,))],
        [value("y")],
        [weights],
        opset_imports=[helper.make_opsetid("", 7)],
        ir_version=3,
    )
    assert [tensor.name for tensor in graph.inputs] == ["x"]


def test_unnamed_nodes_get_names_that_are_free(graph_of):
    graph = graph_of(
        [node("Relu", "x", "a", "Relu_1"), node("Relu", "a", "b"), node("Relu", "b", "y")],
        [value("x")],
        [value("y")],
    )
    assert [op.name for op in graph.ops] == ["Relu_1", "Relu_1_1", "Relu_2"]
    assert graph.warnings == ("2 nodes have no name and were given one: Relu_1_1, Relu_2",)


def test_repeated_node_names_get_ids_of_their_own(graph_of):
    graph = graph_of(
        [node("Relu", "x", "a", "same"), node("Abs", "a", "y", "same")], [value("x")], [value("y")]
    )
    assert [(op.id, op.name) for op in graph.ops] == [("same", "same"), ("same#2", "same")]
    assert graph.ops[1].inputs[0].producer == TensorRef("same", 0)
    assert "1 repeated op name was" in graph.warnings[0]


def test_omitted_optional_inputs_keep_their_place(graph_of):
    high = numpy_helper.from_array(np.array(6, np.float32), "high")
    graph = graph_of([node("Clip", "x  high", "y", "clip")], [value("x")], [value("y")], [high])
    assert graph.ops[0].inputs == (InputRef("x"), None, InputRef("high"))


def test_attributes_are_small_and_json_able(graph_of):
    tensor = numpy_helper.from_array(np.zeros((300, 300), np.float32))
    graph = graph_of(
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


def test_shapes_that_are_left_out_are_inferred(graph_of):
    big = numpy_helper.from_array(np.zeros((3, 2000), np.float32), "w")
    shape = numpy_helper.from_array(np.array([4000], np.int64), "shape")
    graph = graph_of(
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


def test_unknown_dimensions(graph_of):
    graph = graph_of(
        [node("Abs", "x", "y", "abs"), node("Abs", "s", "t", "abs2")],
        [value("x", ("batch", 3, None)), value("s", None)],
        [value("y", ("batch", 3, None)), value("t", None)],
    )
    assert [tensor.shape for tensor in graph.inputs] == [(None, 3, None), None]


def test_a_model_that_cannot_be_inferred_is_read_all_the_same(graph_of):
    graph = graph_of(
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


def branch(name: str, captured: str, constant: float):
    number = numpy_helper.from_array(np.array(constant, np.float32), "k")
    return helper.make_graph(
        [node("Mul", f"{captured} k", f"{name}_m"), node("Neg", f"{name}_m", f"{name}_out", "neg")],
        name,
        [],
        [value(f"{name}_out")],
        [number],
    )


def test_branches_of_an_if_see_what_is_around_them(graph_of):
    graph = graph_of(
        [
            node("Abs", "x", "a", "abs"),
            node(
                "If",
                "cond",
                "y",
                "if",
                then_branch=branch("t", "a", 1),
                else_branch=branch("e", "x", 2),
            ),
            node("Relu", "y", "z", "relu"),
        ],
        [value("x"), value("cond", (), TensorProto.BOOL)],
        [value("z")],
    )
    ids = [op.id for op in graph.ops]
    # make_node sorts attributes by name: else_branch comes first.
    assert ids == [
        "abs",
        "if",
        "relu",
        "if/else_branch/Mul_0",
        "if/else_branch/neg",
        "if/then_branch/Mul_0",
        "if/then_branch/neg",
    ]
    by_id = graph.op_index()
    assert by_id["if"].owns == ("if/else_branch", "if/then_branch")
    assert "then_branch" not in by_id["if"].attrs
    assert by_id["if/then_branch/Mul_0"].inputs[0] == InputRef("a", TensorRef("abs", 0))
    assert by_id["if/else_branch/Mul_0"].inputs[0] == InputRef("x")
    constants = {constant.tensor.name for constant in graph.constants}
    assert constants == {"k", "if/then_branch/k"}
    assert by_id["if/then_branch/Mul_0"].inputs[1] == InputRef("if/then_branch/k")
    then = graph.subgraphs[1]
    assert (then.owner, then.role) == ("if", "then_branch")
    assert then.outputs == ((0, TensorRef("if/then_branch/neg", 0)),)
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert calls == {
        ("if/then_branch/neg", "relu"),
        ("if/else_branch/neg", "relu"),
        ("abs", "if"),  # captured by name: the If depends on it
    }


def test_what_enters_a_loop_reaches_its_readers(graph_of):
    body = helper.make_graph(
        [
            node("Identity", "go", "go_on", "again"),
            node("Add", "carried step", "next", "add"),
            node("Abs", "carried", "seen", "abs"),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("carried")],
        [value("go_on", (), TensorProto.BOOL), value("next"), value("seen")],
    )
    graph = graph_of(
        [
            node("Neg", "x", "start", "neg"),
            node("Sqrt", "x", "step", "sqrt"),
            node("Loop", "n go0 start", "last all", "loop", body=body),
            node("Relu", "last", "y", "relu"),
            node("Relu", "all", "z", "relu2"),
        ],
        [value("x"), value("n", (), TensorProto.INT64), value("go0", (), TensorProto.BOOL)],
        [value("y"), value("z", None)],
    )
    (loop,) = graph.subgraphs
    assert loop.inputs == ((1, "loop/body/again"), (2, "loop/body/add"), (2, "loop/body/abs"))
    assert loop.outputs == ((0, TensorRef("loop/body/add", 0)), (1, TensorRef("loop/body/abs", 0)))
    edges = {(e.source, e.target, e.kind) for e in graph.edges()}
    assert ("neg", "loop/body/add", EdgeKind.CALL) in edges
    assert ("loop/body/abs", "relu2", EdgeKind.CALL) in edges
    assert ("sqrt", "loop/body/add", EdgeKind.DATA) in edges
    assert ("sqrt", "loop", EdgeKind.CALL) in edges


def test_bodies_inside_bodies(graph_of):
    inner = branch("t", "a", 1)
    outer = helper.make_graph(
        [node("If", "cond", "r", "inner", then_branch=inner, else_branch=branch("e", "a", 2))],
        "outer",
        [],
        [value("r")],
    )
    graph = graph_of(
        [
            node("Abs", "x", "a", "abs"),
            node("If", "cond", "y", "top", then_branch=outer, else_branch=branch("e", "a", 3)),
        ],
        [value("x"), value("cond", (), TensorProto.BOOL)],
        [value("y")],
    )
    name = "top/then_branch/inner/then_branch/Mul_0"
    assert graph.op_index()[name].inputs[0].producer == TensorRef("abs", 0)
    assert len(graph.subgraphs) == 4


def test_quantised_and_small_types(graph_of):
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(0, np.int8), "zero")
    graph = graph_of(
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
def test_every_onnx_type_has_a_name(graph_of, number):
    graph = graph_of(
        [node("Identity", "x", "y", "id")], [value("x", (1,), number)], [value("y", (1,), number)]
    )
    assert (graph.inputs[0].dtype is None) == (number == TensorProto.UNDEFINED)


def test_an_input_nobody_makes_is_told(graph_of):
    graph = graph_of([node("Abs", "ghost", "y", "abs")], [value("x")], [value("y"), value("x")])
    assert graph.ops[0].inputs == (InputRef("ghost"),)
    assert "1 input is made by no node: ghost of abs" in graph.warnings
    assert any("passed through: x" in line for line in graph.warnings)


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
    random_ = random.Random(11)
    outcomes = set()
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(random_.choice((1, 1, 3))):
            damaged[random_.randrange(len(data))] = random_.randrange(256)
        path.write_bytes(damaged)
        try:
            list(read_graph(path).edges())
            outcomes.add("read")
        except ImportFormatError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


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
