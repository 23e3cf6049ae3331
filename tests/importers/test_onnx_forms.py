"""ONNX models with functions, with values outside, in text forms, and of odd kinds."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from google.protobuf import json_format, text_format
from onnx import TensorProto, helper, inliner, numpy_helper, printer

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, TensorRef
from importers import read_graph

FLOAT = TensorProto.FLOAT
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]


def value(name: str, shape=(2, 3), dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attrs):
    return helper.make_node(op_type, inputs.split(" "), outputs.split(" "), name=name, **attrs)


def function(name: str, inputs: str, outputs: str, nodes, attributes=(), **more):
    return helper.make_function(
        *("mine", name, inputs.split(" "), outputs.split(" "), nodes, OPSETS), attributes, **more
    )


def model_of(nodes, functions=(), inputs=("x",), outputs=("y",), **more):
    graph = helper.make_graph(nodes, "net", [*map(value, inputs)], [*map(value, outputs)], **more)
    return helper.make_model(graph, functions=list(functions), opset_imports=OPSETS)


@pytest.fixture
def read(tmp_path):
    def written(model, name: str = "model.onnx"):
        content = model if isinstance(model, bytes) else model.SerializeToString()
        path = tmp_path / name
        path.write_bytes(content)
        return read_graph(path)

    return written


SCALED = function(
    "Scaled",
    "a factor",
    "b extra",
    [
        node("Abs", "a", "inner", "abs"),
        node("Mul", "inner factor", "b", "mul"),
        node("Neg", "a", "extra", "neg"),
    ],
)


def test_each_call_of_a_local_function_has_a_body_of_its_own(read):
    calls = [
        node("Scaled", "x x", "h unused", "one", domain="mine"),
        node("Scaled", "h x", "k y", "two", domain="mine"),
    ]
    graph = read(model_of(calls, [SCALED]))
    assert [op.id for op in graph.ops] == [
        *("one", "two"),
        *("one/function/abs", "one/function/mul", "one/function/neg"),
        *("two/function/abs", "two/function/mul", "two/function/neg"),
    ]
    first, second = graph.subgraphs
    assert (first.name, first.owner, first.role) == ("one/function", "one", "function")
    assert second.inputs == (
        (0, "two/function/abs"),
        (0, "two/function/neg"),
        (1, "two/function/mul"),
    )
    assert second.outputs == (
        (0, TensorRef("two/function/mul", 0)),
        (1, TensorRef("two/function/neg", 0)),
    )
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert ("one/function/mul", "two") in calls
    assert ("one", "two/function/abs") in calls
    assert graph.warnings == ()


def test_functions_in_functions_hold_what_the_inliner_makes_of_them(read):
    outer = function(
        "Outer",
        "a",
        "c",
        [
            node("Scaled", "a a", "m n", "inner", domain="mine"),
            node("Add", "m n", "c", "add"),
        ],
    )
    model = model_of([node("Outer", "x", "y", "top", domain="mine")], [outer, SCALED])
    graph = read(model)
    owners = {body.owner for body in graph.subgraphs}
    leaves = sorted(op.type for op in graph.ops if op.id not in owners)
    assert leaves == sorted(
        node.op_type for node in inliner.inline_local_functions(model).graph.node
    )
    top = node("Outer", "h", "y", "top", domain="mine")
    graph = read(model_of([node("Abs", "x", "h", "before"), top], [outer, SCALED]))
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert ("before", "top/function/inner/function/abs") in calls  # handed on by Outer
    assert graph.op_index()["top/function/inner/function/mul"].subgraph == (
        "top/function/inner/function"
    )


def test_attributes_of_a_body_are_those_the_call_gives(read):
    reference = onnx.AttributeProto(name="alpha", type="FLOAT", ref_attr_name="slope")
    default = onnx.AttributeProto(name="axis", type="INT", ref_attr_name="side")
    leaky = node("LeakyRelu", "a", "h", "leaky")
    leaky.attribute.append(reference)
    soft = node("Softmax", "h", "b", "soft")
    soft.attribute.append(default)
    made = function(
        "F", "a", "b", [leaky, soft], ["slope"], attribute_protos=[helper.make_attribute("side", 1)]
    )
    graph = read(model_of([node("F", "x", "y", "call", domain="mine", slope=0.25)], [made]))
    ops = graph.op_index()
    assert ops["call/function/leaky"].attrs["alpha"] == 0.25
    assert ops["call/function/soft"].attrs["axis"] == 1
    graph = read(model_of([node("F", "x", "y", "call", domain="mine")], [made]))
    assert graph.op_index()["call/function/leaky"].attrs["alpha"] == "@slope"


def test_overloads_are_told_apart(read):
    one = function("F", "a", "b", [node("Abs", "a", "b", "abs")])
    two = function("F", "a", "b", [node("Neg", "a", "b", "neg")])
    two.overload = "second"
    call = node("F", "x", "y", "call", domain="mine")
    call.overload = "second"
    graph = read(model_of([call], [one, two]))
    assert [op.type for op in graph.ops] == ["F", "Neg"]
    assert graph.warnings == ("1 local function is called by nothing and was left out: mine::F",)


def test_a_branch_in_a_function_sees_its_tensors_and_attributes(read):
    branches = {
        f"{way}_branch": helper.make_graph(
            [node("Mul", "a a", f"{way}_out", way)], way, [], [value(f"{way}_out")]
        )
        for way in ("then", "else")
    }
    made = function("F", "a flag", "b", [node("If", "flag", "b", "choose", **branches)])
    graph = helper.make_graph(
        [node("F", "x flag", "y", "call", domain="mine")],
        "net",
        [value("x"), value("flag", (), TensorProto.BOOL)],
        [value("y")],
    )
    read_ = read(helper.make_model(graph, functions=[made], opset_imports=OPSETS))
    body = next(body for body in read_.subgraphs if body.name == "call/function")
    assert (0, "call/function/choose/then_branch/then") in body.inputs


def test_functions_that_call_themselves_are_told(read):
    one = function("A", "a", "b", [node("B", "a", "b", "to_b", domain="mine")])
    two = function("B", "a", "b", [node("A", "a", "b", "to_a", domain="mine")])
    graph = read(model_of([node("A", "x", "y", "top", domain="mine")], [one, two]))
    assert len(graph.ops) == 3
    assert any("inside itself" in told for told in graph.warnings)


def test_functions_that_would_grow_without_end_are_bounded(read, monkeypatch):
    monkeypatch.setattr("importers.onnx_model.functions.MAX_BODY_OPS", 2_000)
    functions = [
        function(
            f"F{level}",
            "a",
            "b",
            [
                node(f"F{level + 1}", "a", "h", domain="mine"),
                node(f"F{level + 1}", "h", "b", domain="mine"),
            ],
        )
        for level in range(40)
    ]
    calls = [node("F0", "x", "h", domain="mine"), node("Abs", "h", "y")]
    graph = read(model_of(calls, functions))
    assert 1_000 < len(graph.ops) <= 2_002
    assert any("there are too many" in told for told in graph.warnings)
    assert any("no end, or one far away" in told for told in graph.warnings)


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
def test_values_outside_of_the_models_folder_are_refused(read, place):
    with pytest.raises(ImportFormatError, match="only in the model's folder"):
        read(outside(place))


@pytest.mark.parametrize("attribute", [False, True])
def test_a_link_out_of_the_folder_is_refused(tmp_path, read, attribute):
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
        read(model, "model/model.onnx")


def test_missing_and_short_files_with_values_are_told(tmp_path, read):
    assert read(outside("gone.bin")).warnings == ("1 file with values is not there: gone.bin",)
    assert read(outside("x" * 300)).warnings[0].startswith("1 file with values is not there")
    (tmp_path / "short.bin").write_bytes(bytes(23))
    assert read(outside("short.bin")).warnings == ("1 value reaches past the end of its file: w",)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "whole.bin").write_bytes(bytes(24))
    graph = read(outside("sub/whole.bin"))
    assert graph.warnings == ()
    assert graph.constants[0].location == os.path.join("sub", "whole.bin")  # noqa: PTH118


def test_sizes_no_file_has_are_unknown(read):
    model = outside("gone.bin")
    tensor = model.graph.initializer[0]
    tensor.dims[:] = [2**62, 2**62]
    tensor.external_data[1].value = "9" * 5000
    tensor.external_data.add(key="offset", value="9" * 5000)
    (constant,) = read(model).constants
    assert (constant.nbytes, constant.offset) == (None, 0)
    tensor.dims[:] = [-3, 2]
    (constant,) = read(model).constants
    assert (constant.tensor.shape, constant.nbytes) == ((None, 2), None)


def test_long_values_are_left_in_the_file(read):
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
    graph = read(helper.make_model(graph, opset_imports=OPSETS))
    ops = graph.op_index()
    assert ops["reshape"].outputs[0].shape == (100, 900)
    sizes = {constant.tensor.name: constant.nbytes for constant in graph.constants}
    assert sizes["w"] == 360_000
    assert ops["if/then_branch/const"].attrs["value"] == "tensor float32[300,300]"


@pytest.mark.parametrize("name", ["m.onnx", "m.txt", "m.json", "m"])
@pytest.mark.parametrize("form", ["protobuf text", "json", "onnx text"])
def test_text_forms_hold_the_same_graph(read, form, name):
    model = model_of([node("Abs", "x", "h", "a/b"), node("Softmax", "h", "y", "s", axis=-1)])
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    content = {
        "protobuf text": text_format.MessageToString,
        "json": json_format.MessageToJson,
        "onnx text": printer.to_text,
    }[form](model)
    binary, text = read(model), read(content.encode(), name)
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
def test_broken_text_is_one_error(read, content):
    with pytest.raises(ImportFormatError) as caught:
        read(content.encode())
    assert "\n" not in str(caught.value)


def test_a_graph_without_nodes(read):
    model = model_of([], inputs=("x",), outputs=("x",))
    graph = read(model)
    assert graph.ops == ()
    assert "the graph has no nodes" in graph.warnings
    with pytest.raises(ImportFormatError, match="no ONNX graph"):
        read(onnx.ModelProto(ir_version=8, graph=onnx.GraphProto()))


def test_names_in_any_language(read):
    model = model_of([node("Abs", "вход", "出力", "층/узел")], inputs=("вход",), outputs=("出力",))
    (op,) = read(model).ops
    assert (op.id, op.inputs[0].tensor, op.outputs[0].name) == ("층/узел", "вход", "出力")


def test_sequences_optionals_and_sparse_values(read):
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
    graph = read(model)
    ops = graph.op_index()
    assert ops["make"].outputs[0].shape is None
    assert ops["at"].inputs[0].producer == TensorRef("make", 0)
    assert ops["clip"].inputs[1] is None
    kept = {constant.tensor.name: constant.tensor for constant in graph.constants}
    assert (kept["w"].dtype, kept["w"].shape) == (DType.FLOAT32, (2, 3))


def test_what_enters_a_loop_in_a_loop_reaches_the_inner_readers(read):
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
    found = read(helper.make_model(graph, opset_imports=OPSETS))
    calls = {(e.source, e.target) for e in found.edges() if e.kind is EdgeKind.CALL}
    assert ("abs", "outer/body/inner/body/neg") in calls


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 11, 13, 17, 21, onnx.defs.onnx_opset_version()])
def test_models_of_every_age(read, opset):
    model = model_of([node("Add", "x x", "h", "add"), node("Relu", "h", "y", "relu")])
    model.opset_import[0].version = opset
    model.ir_version = 3 if opset < 9 else 7
    graph = read(model)
    assert [op.type for op in graph.ops] == ["Add", "Relu"]
    assert graph.attrs["opset ai.onnx"] == opset


def test_training_information_is_told(read):
    model = model_of([node("Abs", "x", "y", "abs")])
    model.training_info.add().algorithm.name = "step"
    assert read(model).warnings == ("training_info is left out",)


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
