"""GE graphs as ONNX-like text: how an op's facts are gathered from its attributes."""

from __future__ import annotations

import random

import pytest
from damaged_files import changed, endings

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, TensorOrigin
from importers.registry import detect, read_graph

FUSED = r"""
ir_version: 6
producer_name: "GE"
graph {
  node {
    output: "x:0"
    name: "x"
    op_type: "ge:Data"
    attribute { name: "index" type: INT }
    attribute { name: "output_desc_nums" i: 1 type: INT }
    attribute { name: "output_desc_dtype:0" s: "DT_FLOAT" type: STRING }
    attribute { name: "output_desc_shape:0" ints: -1 ints: 3 type: INTS }
    attribute { name: "output_desc_layout:0" s: "ND" type: STRING }
  }
  node {
    input: "x:0"
    input: ""
    input: "x:-1"
    output: "scope/fused:1"
    name: "scope/fused"
    op_type: "ge:Conv2D"
    attribute {
      name: "_datadump_original_op_names" strings: "conv" strings: "re\"lu" type: STRINGS
    }
    attribute { name: "ratio" f: 0.1 type: FLOAT }
    attribute { name: "zero" type: FLOAT }
    attribute { name: "no text" type: STRING }
    attribute { name: "scales" floats: 0.5 floats: 2 type: FLOATS }
    attribute { name: "id" i: 7 type: INT }
    attribute { name: "stream_id" i: 3 type: INT }
    attribute { name: "value_desc_dtype" s: "DT_INT32" type: STRING }
    attribute { name: "value_desc_layout" s: "ND" type: STRING }
    attribute { name: "value_desc_device_type" s: "NPU" type: STRING }
    attribute { name: "value_desc_shape" ints: 4 type: INTS }
    attribute { name: "value_data" s: "\000\001" type: STRING }
    attribute { name: "input_desc_nums" i: 2 type: INT }
    attribute { name: "input_desc_dtype:0" s: "DT_FLOAT" type: STRING }
    attribute { name: "output_desc_nums" i: 2 type: INT }
    attribute { name: "output_desc_dtype:0" s: "DT_FLOAT16" type: STRING }
    attribute { name: "output_desc_layout:0" s: "NC1HWC0" type: STRING }
    attribute { name: "output_desc_shape:0" ints: 1 ints: 1 ints: 2 ints: 2 ints: 16 type: INTS }
    attribute { name: "output_desc_origin_layout:0" s: "NCHW" type: STRING }
    attribute { name: "output_desc_origin_dtype:0" s: "DT_UNDEFINED" type: STRING }
    attribute { name: "output_desc_origin_shape:0" ints: 1 ints: 3 ints: 2 ints: 2 type: INTS }
    attribute { name: "output_desc_attr__datadump_origin_name:0" s: "relu" type: STRING }
    attribute { name: "output_desc_attr__datadump_origin_output_index:0" i: 1 type: INT }
    attribute { name: "output_desc_attr__datadump_origin_data_type:0" s: "DT_FLOAT" type: STRING }
    attribute { name: "output_desc_attr_shape_range:0_0" ints: 1 type: INTS }
    attribute { name: "output_desc_dtype:1" s: "DT_BF16" type: STRING }
    attribute { name: "output_desc_shape:1" type: INTS }
    attribute { name: "output_desc_layout:1" s: "FORMAT_RESERVED" type: STRING }
  }
  node {
    input: "scope/fused:1"
    name: "Node_Output"
    op_type: "ge:NetOutput"
  }
  name: "g"
  input { name: "x" type { tensor_type { elem_type: FLOAT } } }
}
"""

BODIES = """
producer_name: "GE"
graph {
  node { name: "x" op_type: "ge:Data" }
  node { name: "part_0_unknow_PartitionedCall_0" op_type: "ge:PartitionedCall" input: "x:0" }
  node { name: "cond" op_type: "ge:If" input: "x:0" input: "part_0_unknow_PartitionedCall_0:0" }
  node { name: "end" op_type: "ge:NetOutput" input: "cond:0" }
  node {
    name: "part_0_unknow"
    op_type: "subgraph"
    attribute {
      name: "graph"
      type: GRAPH
      g {
        node {
          name: "d" op_type: "ge:Data"
          attribute { name: "_parent_node_index" type: INT }
        }
        node { name: "abs" op_type: "ge:Abs" input: "d:0" }
        node {
          name: "o" op_type: "ge:NetOutput" input: "abs:0"
          attribute { name: "input_desc_nums" i: 1 type: INT }
          attribute { name: "input_desc_dtype:0" s: "DT_FLOAT" type: STRING }
          attribute { name: "input_desc_attr__parent_node_index:0" i: 0 type: INT }
        }
        name: "part_0_unknow"
      }
    }
  }
  node {
    name: "cond_then"
    op_type: "subgraph"
    attribute { name: "graph" type: GRAPH g { name: "cond_then"
      node { name: "neg" op_type: "ge:Neg" } } }
  }
  node {
    name: "stray"
    op_type: "subgraph"
    attribute { name: "graph" type: GRAPH g { name: "stray"
      node { name: "exp" op_type: "ge:Exp" } } }
  }
  name: "root"
}
"""


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="ge_onnx_00000001_graph_1_Build.pbtxt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read_graph(path)

    return read_text


@pytest.mark.parametrize("name", ["ge_onnx_00000001_graph_1_Build.pbtxt", "a.txt", "b.onnx", "c"])
def test_a_fused_op(read, name):
    graph = read(FUSED, name)
    data, fused, _ = graph.ops
    assert (graph.name, graph.format, graph.kind) == ("g", "ge_onnx", "device")
    assert data.outputs[0].shape == (None, 3)
    assert [tensor.name for tensor in graph.inputs] == ["x:0"]
    assert [str(ref) for ref in graph.outputs] == ["scope/fused:1"]
    assert (fused.id, fused.type, fused.sequence) == ("scope/fused", "Conv2D", 7)
    assert fused.original_names == ("conv", 're"lu')
    assert [ref and str(ref.producer) for ref in fused.inputs] == ["x:0", None]
    assert fused.control_inputs == ("x",)
    first, second = fused.outputs
    assert (first.dtype, first.layout, first.shape) == (
        DType.FLOAT16,
        "NC1HWC0",
        (1, 1, 2, 2, 16),
    )
    assert first.origin == TensorOrigin("relu", 1, "NCHW", DType.FLOAT32, (1, 3, 2, 2))
    assert (second.dtype, second.layout, second.shape) == (DType.BFLOAT16, None, ())
    assert fused.attrs == {
        "_datadump_original_op_names": ("conv", 're"lu'),
        "ratio": 0.1,
        "zero": 0.0,
        "no text": "",
        "scales": (0.5, 2.0),
        "value": "tensor int32[4]",
    }
    assert graph.warnings == ()


def test_who_reads_it_and_why(tmp_path):
    path = tmp_path / "anything"
    path.write_text(FUSED, encoding="utf-8")
    (importer, found), *_ = detect(path)
    assert (importer.name, found.confidence) == ("ge_onnx", 2)
    assert "ge:" in found.reason


def test_other_onnx_texts_are_not_taken(tmp_path):
    path = tmp_path / "model.pbtxt"
    path.write_text(FUSED.replace('"ge:', '"').replace('"GE"', '"pytorch"'), encoding="utf-8")
    assert "ge_onnx" not in [importer.name for importer, _ in detect(path)]


def test_subgraphs_are_given_to_the_ops_named_like_them(read):
    graph = read(BODIES)
    assert {body.name: body.owner for body in graph.subgraphs} == {
        "part_0_unknow": "part_0_unknow_PartitionedCall_0",
        "cond_then": "cond",
        "stray": "",
    }
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert calls == {("x", "part_0_unknow/d"), ("part_0_unknow/abs", "cond")}
    given, lineage, orphans = graph.warnings
    assert given.startswith("2 sub-graphs were given to ops by their names")
    assert lineage.startswith("the file does not say which originals its ops stand for")
    assert orphans == "1 sub-graph belongs to no op: stray"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('graph { node { op_type: "ge:Abs" } }', "a node without a name"),
        ('graph { node { name: "a" op_type: "ge:Abs" attribute { i: 1 } } }', "without a name"),
        ('graph { node { name: "a" op_type: "ge:Abs" attribute: 3 } }', "where a block belongs"),
        (
            'graph { node { name: "a" op_type: "ge:Abs" attribute'
            ' { name: "output_desc_nums" i: 999999999 type: INT } } }',
            "an op with 999999999 outputs",
        ),
        (
            'graph { node { name: "a" op_type: "ge:Abs" attribute'
            ' { name: "output_desc_dtype:999999" s: "x" type: STRING } } }',
            "an op with 1000000 outputs",
        ),
        ('graph { node { name: "a" op_type: "ge:Abs" ', "the file ends inside"),
        ('graph { name: "g" } node { op_type: "ge:A" }', "no op in its graph"),
    ],
)
def test_broken_text_says_where(read, text, what):
    with pytest.raises(ImportFormatError, match=what) as caught:
        read(text)
    assert caught.value.line == 1


@pytest.mark.slow
def test_a_file_cut_or_damaged_anywhere(tmp_path):
    text = (FUSED + BODIES).encode()
    path = tmp_path / "ge_onnx_00000001_Build.pbtxt"
    rng = random.Random(4)
    cuts = (text if number % 2 else text[: rng.randrange(120, len(text))] for number in range(500))
    contents = (changed(cut, rng, b'{}":\\\x00\xff9a \n') for cut in cuts)
    assert endings(path, contents) == {"read", "refused"}


@pytest.mark.shared
def test_a_real_file(shared_data):
    path = shared_data / "ge_proto" / "ge_onnx_00000000_graph_1_Build.pbtxt"
    graph = read_graph(path)
    assert [(op.type, op.sequence) for op in graph.ops] == [
        ("Constant", 0),
        ("Variable", 1),
        ("Assign", 2),
        ("NoOp", 3),
        ("Variable", 4),
        ("NetOutput", 5),
    ]
    assert graph.op_index()["init"].control_inputs == ("Variable/Assign",)
    constant = graph.op_index()["Variable/initial_value"]
    assert constant.attrs["value"] == "tensor float32[64]"
    assert (constant.outputs[0].shape, constant.outputs[0].layout) == ((64,), "ND")
    assert "value_desc_dtype" not in constant.attrs
