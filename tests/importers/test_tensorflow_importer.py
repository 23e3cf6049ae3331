"""TensorFlow graphs, binary and text: ports, types, shapes, and damaged files."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from damaged_files import changed, endings
from google.protobuf import text_format

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, Framework, GraphKind, InputRef, TensorRef
from importers.proto.messages import tf_graph_pb2 as pb
from importers.registry import read_graph
from importers.tensorflow.functions import declared, known, output_types

TEXT = r"""
# written by hand
node {
  name: "x" op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 8 } } } }
}
node {
  name: "w" op: "Const" device: "/cpu:0"
  attr { key: "dtype" value { type: DT_HALF } }
  attr { key: "value" value { tensor {
    dtype: DT_HALF tensor_shape { dim { size: 8 } dim { size: 2 } } tensor_content: "\000\001" } } }
}
node {
  name: "scope/split" op: "Split" input: "axis" input: "x" input: "^w"
  attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "num_split" value { i: 3 } }
}
node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
node {
  name: "y" op: "Mystery" input: "scope/split:2" input: "x:0"
  attr { key: "T" value { type: DT_FUTURE_TYPE } }
  attr { key: "_class" value { list { s: "loc:@w" } } }
  attr { key: "f" value { func { name: "fn" } } }
  attr { key: "shapes" value { list { shape { unknown_rank: true } shape { } } } }
  attr { key: "flag" value { b: true } }
  attr { key: "rate" value { f: 0.5 } }
  experimental_debug_info { original_node_names: "z" }
}
versions { producer: 27 }
"""


@pytest.fixture
def graph_of(tmp_path):
    def read(content: str | bytes, name: str = "net.pb"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_graph(path)

    return read


def nodes(*texts: str) -> str:
    return "".join(f"node {{ {text} }}\n" for text in texts)


def binary(text: str) -> bytes:
    return text_format.Parse(text, pb.GraphDef()).SerializeToString()


def test_a_graphdef_is_an_original_graph(graph_of):
    graph = graph_of(TEXT)
    assert (graph.name, graph.kind, graph.framework, graph.format) == (
        "net",
        GraphKind.ORIGINAL,
        Framework.TENSORFLOW,
        "graphdef",
    )
    assert [op.id for op in graph.ops] == ["x", "w", "scope/split", "axis", "y"]
    assert [tensor.name for tensor in graph.inputs] == ["x:0"]
    assert graph.outputs == (TensorRef("y", 0),)
    assert graph.warnings == ()


def test_inputs_name_an_op_a_port_or_only_an_order(graph_of):
    graph = graph_of(TEXT)
    assert graph.ops[2].inputs == (
        InputRef("axis:0", TensorRef("axis", 0)),
        InputRef("x:0", TensorRef("x", 0)),
    )
    assert graph.ops[2].control_inputs == ("w",)
    assert graph.ops[4].inputs[0] == InputRef("scope/split:2", TensorRef("scope/split", 2))


def test_outputs_have_types_and_shapes_where_the_graph_says(graph_of):
    x, w, split, axis, y = graph_of(TEXT).ops
    assert (x.outputs[0].dtype, x.outputs[0].shape) == (DType.FLOAT32, (None, 8))
    assert (w.outputs[0].dtype, w.outputs[0].shape) == (DType.FLOAT16, (8, 2))
    assert [tensor.name for tensor in split.outputs] == [f"scope/split:{k}" for k in range(3)]
    assert axis.outputs[0].shape == ()
    assert (y.outputs[0].dtype, y.outputs[0].shape) == (None, None)


def test_attributes_are_small_and_json_able(graph_of):
    _, w, _, _, y = graph_of(TEXT).ops
    assert dict(w.attrs) == {"device": "/cpu:0", "dtype": "float16", "value": "tensor float16[8,2]"}
    assert dict(y.attrs) == {
        "T": "type 0",
        "_class": ("loc:@w",),
        "f": "function fn",
        "shapes": ("unknown rank", ()),
        "flag": True,
        "rate": 0.5,
    }
    assert json.dumps(dict(y.attrs))


def test_binary_and_text_are_read_alike(graph_of):
    known = "\n".join(
        line for line in TEXT.splitlines() if "FUTURE" not in line and "experimental" not in line
    )
    message = text_format.Parse(known, pb.GraphDef(), allow_unknown_field=True)
    from_text, from_binary = graph_of(known), graph_of(message.SerializeToString())
    assert from_text.ops == from_binary.ops


def test_recorded_output_shapes_come_first(graph_of):
    graph = graph_of(
        nodes(
            'name: "t" op: "TopKV2" attr { key: "T" value { type: DT_HALF } }'
            'attr { key: "_output_shapes" value { list { shape { dim { size: 3 } }'
            " shape { unknown_rank: true } } } }"
        )
    )
    values, indices = graph.ops[0].outputs
    assert (values.dtype, values.shape) == (DType.FLOAT16, (3,))
    assert (indices.dtype, indices.shape) == (DType.INT32, None)


@pytest.mark.parametrize(
    ("op", "attrs", "types"),
    [
        ("Split", {"num_split": 2, "T": "DT_FLOAT"}, ["float32"] * 2),
        ("Unpack", {"num": 3, "T": "DT_INT64"}, ["int64"] * 3),
        ("ShapeN", {"N": 2, "T": "DT_FLOAT"}, ["int32"] * 2),
        ("Shape", {"T": "DT_FLOAT", "out_type": "DT_INT64"}, ["int64"]),
        ("Switch", {"T": "DT_BOOL"}, ["bool", "bool"]),
        ("Merge", {"T": "DT_FLOAT", "N": 2}, ["float32", "int32"]),
        ("FusedBatchNorm", {"T": "DT_FLOAT"}, ["float32"] * 5),
        ("FusedBatchNormV3", {"T": "DT_HALF", "U": "DT_FLOAT"}, ["float16"] + ["float32"] * 5),
        ("IteratorGetNext", {"output_types": ["DT_FLOAT", "DT_INT32"]}, ["float32", "int32"]),
        ("SparseSoftmaxCrossEntropyWithLogits", {"T": "DT_FLOAT"}, ["float32", "float32"]),
        ("TopKV2", {"T": "DT_FLOAT"}, ["float32", "int32"]),
        ("Unique", {"T": "DT_STRING"}, ["string", "int32"]),
        ("Cast", {"SrcT": "DT_FLOAT", "DstT": "DT_BFLOAT16"}, ["bfloat16"]),
        ("Equal", {"T": "DT_FLOAT"}, ["bool"]),
        ("ArgMax", {"T": "DT_FLOAT", "Tidx": "DT_INT32"}, ["int64"]),
        ("VariableV2", {"dtype": "DT_FLOAT_REF"}, ["float32"]),
        ("NoOp", {}, []),
        ("ResourceApplyMomentum", {"T": "DT_FLOAT"}, []),
        ("IdentityN", {"T": ["DT_FLOAT", "DT_BOOL"]}, ["float32", "bool"]),
        ("NotInAnyTable", {"T": "DT_DOUBLE"}, ["float64"]),
    ],
)
def test_how_many_outputs_of_which_types(graph_of, op, attrs, types):
    def told(value) -> str:
        if isinstance(value, list):
            return f"list {{ {' '.join(f'type: {each}' for each in value)} }}"
        return f"type: {value}" if isinstance(value, str) else f"i: {value}"

    text = "".join(f'attr {{ key: "{k}" value {{ {told(v)} }} }}' for k, v in attrs.items())
    graph = graph_of(nodes(f'name: "n" op: "{op}" {text}', 'name: "m" op: "NoOp"'))
    assert [tensor.dtype for tensor in graph.ops[0].outputs] == types


def test_ports_in_use_are_outputs_whatever_the_table_says(graph_of):
    graph = graph_of(nodes('name: "a" op: "Odd"', 'name: "b" op: "Abs" input: "a:3"'))
    assert len(graph.ops[0].outputs) == 4
    graph = graph_of(nodes('name: "a" op: "Odd"', 'name: "b" op: "Abs" input: "a:9999999999"'))
    assert len(graph.ops[0].outputs) == 1


def test_a_split_count_beyond_reason_makes_no_millions(graph_of):
    text = 'name: "s" op: "Split" attr { key: "num_split" value { i: 9000000000 } }'
    assert len(graph_of(nodes(text)).ops[0].outputs) <= 1 << 16


def test_old_loops_are_cycles(graph_of):
    graph = graph_of(
        binary(
            nodes(
                'name: "enter" op: "Enter"',
                'name: "merge" op: "Merge" input: "enter" input: "next"',
                'name: "next" op: "NextIteration" input: "merge"',
            )
        )
    )
    edges = {(edge.source, edge.target) for edge in graph.edges()}
    assert {("merge", "next"), ("next", "merge")} <= edges


def test_what_does_not_fit_together_is_told(graph_of):
    graph = graph_of(
        nodes(
            'name: "a" op: "Abs" input: "gone:1" input: "^lost"',
            'name: "a" op: "Neg"',
            'name: "b" op: "Abs" input: "a"',
        )
    )
    assert [op.id for op in graph.ops] == ["a", "a#2", "b"]
    assert graph.ops[0].inputs == (InputRef("gone:1"),)
    assert graph.ops[2].inputs[0].producer == TensorRef("a", 0)
    told = "\n".join(graph.warnings)
    assert "1 repeated op name was" in told
    assert "2 inputs name a node that is not there: gone:1 of a, ^lost of a" in told


def meta_graph(tags: tuple[str, ...] = ()) -> pb.MetaGraphDef:
    meta = pb.MetaGraphDef()
    text_format.Parse(
        nodes(
            'name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }',
            'name: "p" op: "Pair" input: "x" attr { key: "K" value { i: 2 } }',
            'name: "y" op: "Abs" input: "p:1"',
            'name: "save" op: "Abs" input: "p"',
        ),
        meta.graph_def,
    )
    pair = meta.meta_info_def.stripped_op_list.op.add(name="Pair")
    pair.output_arg.add(name="a", type_attr="T")
    pair.output_arg.add(name="b", type=pb.DT_INT32, number_attr="K")
    pair.attr.add(name="T").default_value.type = pb.DT_HALF
    meta.meta_info_def.tensorflow_version = "1.15.0"
    meta.meta_info_def.tags.extend(tags)
    meta.graph_def.library.function.add().signature.name = "helper_fn"
    return meta


@pytest.mark.parametrize("as_text", [False, True])
def test_a_metagraph_defines_its_own_ops(graph_of, as_text):
    meta = meta_graph()
    content = text_format.MessageToString(meta) if as_text else meta.SerializeToString()
    graph = graph_of(content, "model.ckpt.meta")
    assert (graph.name, graph.format) == ("model.ckpt", "meta")
    assert [t.dtype for t in graph.ops[1].outputs] == [DType.FLOAT16, DType.INT32, DType.INT32]
    assert graph.outputs == (TensorRef("y", 0), TensorRef("save", 0))
    assert graph.warnings == (
        "1 library function is called by nothing and was left out: helper_fn",
    )
    assert graph.attrs == {"tensorflow_version": "1.15.0"}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("give_folder", [False, True])
def test_a_saved_model_is_the_graph_that_serves(tmp_path, as_text, give_folder):
    serving = meta_graph(("serve",))
    outputs = serving.signature_def["serving_default"].outputs
    outputs["score"].name = "y:0"
    outputs["lost"].name = "not_there:0"
    saved = pb.SavedModel(saved_model_schema_version=1)
    training = saved.meta_graphs.add()
    training.graph_def.node.add(name="t", op="NoOp")
    training.meta_info_def.tags.append("train")
    saved.meta_graphs.append(serving)
    folder = tmp_path / "scorer"
    folder.mkdir()
    file = folder / ("saved_model.pbtxt" if as_text else "saved_model.pb")
    if as_text:
        file.write_text(text_format.MessageToString(saved), encoding="utf-8")
    else:
        file.write_bytes(saved.SerializeToString())
    graph = read_graph(folder if give_folder else file)
    assert (graph.name, graph.format, graph.source) == ("scorer", "saved_model", str(file))
    assert len(graph.ops) == 4
    assert graph.outputs == (TensorRef("y", 0),)
    assert "of 2 graphs the one with tags serve was read" in graph.warnings


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('node { name: "a" op: 5 }', "field op is not text"),
        ('node { name: "a" op: "b" input { } }', "field input is a block"),
        ('node { name: "a" op: "b" attr: 3 }', "field attr is not a block"),
        ('node { name: "a" op: "b" attr { key: "k" value { i: x } } }', "is no whole number"),
        ('node { name: "a" op: "b"', "the file ends inside 'node'"),
    ],
)
def test_wrong_text_is_told_with_its_line(graph_of, text, what):
    with pytest.raises(ImportFormatError, match=what) as caught:
        graph_of("\n\n" + text, "graph.pbtxt")
    assert caught.value.line == 3


def test_a_cut_binary_graph(graph_of):
    data = binary(nodes(*(f'name: "n{k}" op: "Abs"' for k in range(50))))
    with pytest.raises(ImportFormatError, match="damaged TensorFlow graph"):
        graph_of(data[:-5])


@pytest.mark.parametrize(
    "make", [meta_graph, lambda: meta_graph().graph_def], ids=["meta graph", "graph"]
)
def test_any_damaged_byte_ends_in_a_graph_or_an_error(tmp_path, make):
    data = make().SerializeToString()
    rng = random.Random(5)
    path = tmp_path / "net.pb"
    contents = (changed(data, rng) for _ in range(1000))
    assert endings(path, contents) == {"read", "refused"}


def test_our_messages_live_beside_others_of_the_same_short_names():
    code = (
        "from google.protobuf import descriptor_pb2, descriptor_pool\n"
        "file = descriptor_pb2.FileDescriptorProto(name='tensorflow/core/framework/graph.proto')\n"
        "file.package = 'tensorflow'\n"
        "file.message_type.add(name='GraphDef')\n"
        "descriptor_pool.Default().Add(file)\n"
        "import importers.proto.messages.tf_graph_pb2\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "kind", "ops"),
    [
        ("tf/autoencoder_hh.pb", "graphdef", 68),
        ("tf/tf2onnx_fc_layers_frozen.pb", "graphdef", 24),
        ("tf/tf2onnx_lstm_frozen.pb", "graphdef", 529),
        ("tf/tf2onnx_regression_frozen.pb", "graphdef", 8),
        ("tf/mtcnn.pb", "graphdef", 894),
        ("tf/tf_pose_mobilenet_v2_small_graph_opt.pb", "graphdef", 916),
        ("tf/tf2onnx_regression_model.meta", "meta", 128),
        ("tf/PNet-18.meta", "meta", 1061),
        ("tf/half_plus_two_export.meta", "meta", 57),
        ("tf_lenet_train/model.ckpt.meta", "meta", 381),
        ("tf/tf2onnx_regression_saved_model.pb", "saved_model", 148),
    ],
)
def test_the_real_files(shared_data, file, kind, ops):
    graph = read_graph(shared_data / file)
    assert (graph.format, len(graph.ops)) == (kind, ops)
    known = graph.op_index()
    assert all(edge.source in known and edge.target in known for edge in graph.edges())
    assert all(tensor.dtype for op in graph.ops for tensor in op.outputs)
    assert graph.warnings == ()


@pytest.mark.shared
def test_control_edges_of_a_training_graph(shared_data):
    graph = read_graph(shared_data / "tf" / "PNet-18.meta")
    assert sum(edge.kind is EdgeKind.CONTROL for edge in graph.edges()) == 268


def test_every_line_of_the_table_is_understood():
    table = known()
    assert len(table) > 500
    assert table["NoOp"] == ()
    attrs = {arg.type for args in table.values() for arg in args}
    assert not {name for name in attrs if name.isupper() and len(name) > 2}


@pytest.mark.shared
@pytest.mark.parametrize(
    "file", ["tf/PNet-18.meta", "tf_lenet_train/model.ckpt.meta", "tf/half_plus_two_export.meta"]
)
def test_the_table_agrees_with_what_real_graphs_define(shared_data, file):
    meta = pb.MetaGraphDef.FromString((shared_data / file).read_bytes())
    definitions = declared(meta.meta_info_def.stripped_op_list)
    compared = 0
    for node in meta.graph_def.node:
        expected = output_types(node, definitions[node.op], 100)
        assert output_types(node, known().get(node.op), 100) == expected, node.op
        compared += node.op in known()
    assert compared > 5
