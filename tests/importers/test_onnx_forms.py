"""ONNX models with values outside, in text forms, and of odd kinds."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from google.protobuf import json_format, text_format
from onnx import TensorProto, helper, numpy_helper, printer
from onnx_nodes import FLOAT, OPSETS, model_of, node, value

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, TensorRef
from importers.registry import read_graph


def outside(location: str):
    model = model_of([node("Mul", "x w", "y", "mul")])
    tensor = model.graph.initializer.add(name="w", data_type=FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="length", value="24")
    return model


@pytest.mark.parametrize(
    "place",
    [
        *("/etc/passwd", "../secret", "a/../../b", "a/..", "C:\\x", "\\\\host\\share\\x"),
        *("..\\secret", "sub\\..\\..\\x"),
    ],
)
def test_values_outside_of_the_models_folder_are_refused(read_onnx, place):
    with pytest.raises(ImportFormatError, match="only in the model's folder"):
        read_onnx(outside(place))


@pytest.mark.parametrize("attribute", [False, True])
def test_a_link_out_of_the_folder_is_refused(tmp_path, read_onnx, attribute):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(24))
    (folder / "link").symlink_to(tmp_path)
    model = outside("link/secret")
    if attribute:
        constant = node("Constant", "", "c", "c")
        constant.attribute.append(helper.make_attribute("value", model.graph.initializer[0]))
        model.graph.node.append(constant)
        del model.graph.initializer[:]
    with pytest.raises(ImportFormatError, match="a link out of the model's folder"):
        read_onnx(model, "model/model.onnx")


def test_missing_and_short_files_with_values_are_told(tmp_path, read_onnx):
    assert read_onnx(outside("gone.bin")).warnings == ("1 file with values is not there: gone.bin",)
    assert read_onnx(outside("x" * 300)).warnings[0].startswith("1 file with values is not there")
    (tmp_path / "short.bin").write_bytes(bytes(23))
    assert read_onnx(outside("short.bin")).warnings == (
        "1 value reaches past the end of its file: w",
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "whole.bin").write_bytes(bytes(24))
    graph = read_onnx(outside("sub/whole.bin"))
    assert graph.warnings == ()
    assert graph.constants[0].location == os.path.join("sub", "whole.bin")  # noqa: PTH118


def test_sizes_no_file_has_are_unknown(read_onnx):
    model = outside("gone.bin")
    tensor = model.graph.initializer[0]
    tensor.dims[:] = [2**62, 2**62]
    tensor.external_data[1].value = "9" * 5000
    tensor.external_data.add(key="offset", value="9" * 5000)
    (constant,) = read_onnx(model).constants
    assert (constant.nbytes, constant.offset) == (None, 0)
    tensor.dims[:] = [-3, 2]
    (constant,) = read_onnx(model).constants
    assert (constant.tensor.shape, constant.nbytes) == ((None, 2), None)


def test_long_values_are_left_in_the_file(read_onnx):
    """Dropped on the way in, wherever they are; shapes follow from the short ones all the same."""
    weight = numpy_helper.from_array(np.ones((300, 300), np.float32), "w")
    shape = numpy_helper.from_array(np.array([100, 900]), "shape")
    constant = node("Constant", "", "c", "const", value=weight)
    then = helper.make_graph(
        [constant, node("Neg", "c", "t")], "then", [], [value("t", (300, 300))]
    )
    other = helper.make_graph([node("Neg", "w", "e")], "else", [], [value("e", (300, 300))])
    graph = helper.make_graph(
        [
            node("If", "flag", "h", "if", then_branch=then, else_branch=other),
            node("Reshape", "h shape", "k", "reshape"),
            node("Abs", "k", "y", "abs"),
        ],
        "net",
        [value("flag", (), TensorProto.BOOL)],
        [value("y", (100, 900))],
        [weight, shape],
    )
    graph = read_onnx(helper.make_model(graph, opset_imports=OPSETS))
    ops = graph.op_index()
    assert ops["reshape"].outputs[0].shape == (100, 900)
    sizes = {constant.tensor.name: constant.nbytes for constant in graph.constants}
    assert sizes["w"] == 360_000
    assert ops["if/then_branch/const"].attrs["value"] == "tensor float32[300,300]"


@pytest.mark.parametrize("name", ["m.onnx", "m.txt", "m.json", "m"])
@pytest.mark.parametrize("form", ["protobuf text", "json", "onnx text"])
def test_text_forms_hold_the_same_graph(read_onnx, form, name):
    model = model_of([node("Abs", "x", "h", "a/b"), node("Softmax", "h", "y", "s", axis=-1)])
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    content = {
        "protobuf text": text_format.MessageToString,
        "json": json_format.MessageToJson,
        "onnx text": printer.to_text,
    }[form](model)
    binary, text = read_onnx(model), read_onnx(content.encode(), name)
    assert [op.type for op in text.ops] == [op.type for op in binary.ops]
    assert [op.inputs for op in text.ops] == [
        op.inputs if form != "onnx text" else text_op.inputs
        for op, text_op in zip(binary.ops, text.ops, strict=True)
    ]
    assert text.ops[1].attrs == {"axis": -1}
    assert [tensor.name for tensor in text.inputs] == ["x"]
    assert text.constants[0].tensor.shape == (3,)


@pytest.mark.parametrize(
    "content",
    [
        '<ir_version: 8, opset_import: ["" : 18]> net (float x) => (float y) { y = Abs(x',
        '<ir_version: 8, opset_import: ["" : 18]> ' + "{" * 100_000,
        '{"irVersion": "8", "graph": {"node": 3}}',
        '{"irVersion": "8", "graph": ' + '{"a":' * 100_000,
        'ir_version: 8 graph { node { op_type: Abs } }',
        'ir_version: 8 graph { node { op_type: "Abs" ',
    ],
)  # fmt: skip
def test_broken_text_is_one_error(read_onnx, content):
    with pytest.raises(ImportFormatError) as caught:
        read_onnx(content.encode())
    assert "\n" not in str(caught.value)


def test_a_graph_without_nodes(read_onnx):
    model = model_of([], inputs=("x",), outputs=("x",))
    graph = read_onnx(model)
    assert graph.ops == ()
    assert "the graph has no nodes" in graph.warnings
    with pytest.raises(ImportFormatError, match="no ONNX graph"):
        read_onnx(onnx.ModelProto(ir_version=8, graph=onnx.GraphProto()))


def test_names_in_any_language(read_onnx):
    model = model_of([node("Abs", "вход", "出力", "층/узел")], inputs=("вход",), outputs=("出力",))
    (op,) = read_onnx(model).ops
    assert (op.id, op.inputs[0].tensor, op.outputs[0].name) == ("층/узел", "вход", "出力")


def test_sequences_optionals_and_sparse_values(read_onnx):
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(2, np.float32), "w"),
        numpy_helper.from_array(np.array([1, 4])),
        [2, 3],
    )
    model = model_of(
        [
            node("SequenceConstruct", "x x", "seq", "make"),
            node("SequenceAt", "seq at", "h", "at"),
            node("Clip", "h  top", "k", "clip"),
            node("Mul", "k w", "y", "mul"),
        ],
        inputs=("x",),
    )
    model.graph.sparse_initializer.append(sparse)
    model.graph.initializer.append(numpy_helper.from_array(np.array(0), "at"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(6, np.float32), "top"))
    graph = read_onnx(model)
    ops = graph.op_index()
    assert ops["make"].outputs[0].shape is None
    assert ops["at"].inputs[0].producer == TensorRef("make", 0)
    assert ops["clip"].inputs[1] is None
    kept = {constant.tensor.name: constant.tensor for constant in graph.constants}
    assert (kept["w"].dtype, kept["w"].shape) == (DType.FLOAT32, (2, 3))


def test_what_enters_a_loop_in_a_loop_reaches_the_inner_readers(read_onnx):
    def body(name: str, nodes):
        entries = [
            value(f"{name}_i", (), TensorProto.INT64),
            value(f"{name}_go", (), TensorProto.BOOL),
            value(f"{name}_x"),
        ]
        ends = [value(f"{name}_on", (), TensorProto.BOOL), value(f"{name}_y")]
        on = node("Identity", f"{name}_go", f"{name}_on", "on")
        return helper.make_graph([on, *nodes], name, entries, ends)

    inner = body("in", [node("Neg", "in_x", "in_y", "neg")])
    outer = body("out", [node("Loop", "n out_go out_x", "out_y", "inner", body=inner)])
    graph = helper.make_graph(
        [node("Abs", "x", "h", "abs"), node("Loop", "n go h", "y", "outer", body=outer)],
        "net",
        [value("x"), value("n", (), TensorProto.INT64), value("go", (), TensorProto.BOOL)],
        [value("y")],
    )
    found = read_onnx(helper.make_model(graph, opset_imports=OPSETS))
    calls = {(e.source, e.target) for e in found.edges() if e.kind is EdgeKind.CALL}
    assert ("abs", "outer/body/inner/body/neg") in calls


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 11, 13, 17, 21, onnx.defs.onnx_opset_version()])
def test_models_of_every_age(read_onnx, opset):
    model = model_of([node("Add", "x x", "h", "add"), node("Relu", "h", "y", "relu")])
    model.opset_import[0].version = opset
    model.ir_version = 3 if opset < 9 else 7
    graph = read_onnx(model)
    assert [op.type for op in graph.ops] == ["Add", "Relu"]
    assert graph.attrs["opset ai.onnx"] == opset


def test_training_information_is_told(read_onnx):
    model = model_of([node("Abs", "x", "y", "abs")])
    model.training_info.add().algorithm.name = "step"
    assert read_onnx(model).warnings == ("training_info is left out",)


@pytest.mark.slow
def test_a_model_larger_than_a_message_may_be(tmp_path):
    """2 GiB of values in the file itself: they are passed over, so no memory is needed."""
    model = model_of([node("Abs", "x", "y", "abs")])
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    size = (1 << 31) + 16
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[size]).SerializeToString()

    def varint(number: int) -> bytes:
        found = bytearray()
        while number >= 0x80:
            found.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*found, number])

    raw = b"\x4a" + varint(size)
    whole = len(tensor) + len(raw) + size
    entry = b"\x2a" + varint(whole)
    head = model.SerializeToString()
    head += b"\x3a" + varint(len(graph) + len(entry) + whole) + graph + entry + tensor + raw
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)  # a hole: takes no room on the disk
    found = read_graph(path)
    assert found.constants[0].nbytes == size
    assert [op.id for op in found.ops] == ["abs"]
