"""GE text graphs: what each field becomes, and what broken ones say."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from damaged_files import changed, endings
from google.protobuf import text_format

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, GraphKind, InputRef, TensorOrigin, TensorRef
from importers.registry import read_graph

BUILD = r"""
graph {
  name: "ge_default_1_11"
  input: "x:0"
  output: "scope/fused:0"
  op {
    name: "x"
    type: "Data"
    input: ""
    output_desc { dtype: DT_FLOAT shape { dim: -1 dim: 3 } layout: "NCHW" }
  }
  op {
    name: "w:1"
    type: "Const"
    attr { key: "_datadump_original_op_names" value { list { s: "" } } }
    attr { key: "value" value { t { desc { dtype: DT_BF16 shape { dim: 4 } } data: "\001\002" } } }
    id: 3
    output_desc { dtype: DT_BF16 shape { dim: -2 } layout: "FORMAT_RESERVED" }
  }
  op {
    name: "scope/fused"
    type: "Conv2D"
    input: "x:0"
    input: ""
    input: "w:1:0"
    input: "x:-1"
    attr { key: "_datadump_original_op_names"
           value { list { s: "conv" s: "bias" s: "rel\346\210\221" } } }
    attr { key: "_datadump_is_multiop" value { b: true } }
    attr { key: "_L1_fusion_sub_graph_no" value { s: "2" } }
    attr { key: "fusion_scope" value { i: -3 } }
    attr { key: "pass_name" value { list { s: "OnePass" s: "TwoPass" } } }
    attr { key: "_tbe_kernel_buffer" value { bt: "\177ELF\000\000" } }
    attr { key: "ratio" value { f: 1e-05 } }
    attr { key: "ranges" value { list_list_int { list_list_i { list_i: 1 list_i: 2 } } } }
    attr { key: "sub" value { func { name: "f" } } }
    attr { key: "no_value" value { } }
    attr { key: "newer" value { hologram { depth: 3 } } }
    id: 7
    output_desc {
      dtype: DT_FLOAT16
      shape { dim: 1 dim: 4 dim: 112 dim: 112 dim: 16 }
      layout: "NC1HWC0"
      attr { key: "_datadump_origin_name" value { s: "relu" } }
      attr { key: "_datadump_origin_output_index" value { i: 2 } }
      attr { key: "_datadump_origin_format" value { s: "NHWC" } }
      attr { key: "_datadump_origin_data_type" value { s: "DT_FLOAT" } }
      attr { key: "origin_format" value { s: "NCHW" } }
      attr { key: "origin_shape" value { list { i: 1 i: 64 i: 112 i: 112 } } }
    }
    output_desc { attr { key: "origin_format" value { s: "ND" } } }
  }
  attr { key: "_session_graph_id" value { s: "-1_0" } }
}
attr { key: "stream_num" value { i: 2 } }
"""

CALLS = """
graph {
  name: "root"
  op { name: "x" type: "Data" }
  op { name: "y" type: "Data" }
  op { name: "call" type: "PartitionedCall" input: "x:0" input: "y:0" subgraph_name: "body" }
  op { name: "loop" type: "While" input: "call:0" subgraph_name: "c" subgraph_name: "b" }
  op { name: "Node_Output" type: "NetOutput" input: "call:1" input: "loop:0" }
}
graph {
  name: "body"
  op { name: "d" type: "Data" attr { key: "_parent_node_index" value { i: 1 } } }
  op { name: "e" type: "Data" attr { key: "_parent_node_index" value { i: 0 } } }
  op { name: "x" type: "Abs" input: "d:0" }
  op {
    name: "out" type: "NetOutput" input: "x:0" input: "" input: "e:0"
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 1 } } }
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 } } }
  }
}
graph {
  name: "c"
  op { name: "less" type: "Less" } op { name: "o" type: "NetOutput" input: "less:0" }
}
graph {
  name: "b"
  op { name: "add" type: "Add" } op { name: "o" type: "NetOutput" input: "add:0" }
}
"""


@pytest.fixture
def graph_of(tmp_path):
    def read(text: str, name: str = "ge_proto_00001_Build.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read_graph(path)

    return read


def failure_of(path: Path) -> ImportFormatError | None:
    """The error of reading *path*, None if it reads."""
    try:
        read_graph(path)
    except ImportFormatError as error:
        return error
    return None


def test_a_build_graph_is_a_device_graph(graph_of):
    graph = graph_of(BUILD)
    assert (graph.name, graph.kind, graph.framework, graph.format) == (
        "ge_default_1_11",
        GraphKind.DEVICE,
        "ascend",
        "ge_proto",
    )
    assert [op.name for op in graph.ops] == ["x", "w:1", "scope/fused"]
    assert [tensor.name for tensor in graph.inputs] == ["x:0"]
    assert graph.outputs == (TensorRef("scope/fused", 0),)
    assert graph.attrs == {"stream_num": 2, "_session_graph_id": "-1_0"}
    assert graph.warnings == ()


def test_inputs_keep_their_positions(graph_of):
    op = graph_of(BUILD).ops[2]
    assert op.inputs == (
        InputRef("x:0", TensorRef("x", 0)),
        None,
        InputRef("w:1:0", TensorRef("w:1", 0)),
    )
    assert op.control_inputs == ("x",)


def test_original_names_tell_original_fused_and_inserted(graph_of):
    original, inserted, fused = graph_of(BUILD).ops
    assert original.original_names is None
    assert inserted.original_names == ()
    assert fused.original_names == ("conv", "bias", "rel我")


def test_the_order_is_the_id_with_zero_left_out_by_the_printer(graph_of):
    assert [op.sequence for op in graph_of(BUILD).ops] == [0, 3, 7]


def test_the_order_is_the_file_where_no_op_has_an_id(graph_of):
    graph = graph_of(BUILD.replace("id: 3", "").replace("id: 7", ""))
    assert [op.sequence for op in graph.ops] == [0, 1, 2]


def test_tensors_carry_what_the_descriptor_says(graph_of):
    x, w, fused = graph_of(BUILD).ops
    assert (x.outputs[0].dtype, x.outputs[0].shape) == (DType.FLOAT32, (None, 3))
    assert (w.outputs[0].dtype, w.outputs[0].shape, w.outputs[0].layout) == (
        DType.BFLOAT16,
        None,
        None,
    )
    first, second = fused.outputs
    assert first.shape == (1, 4, 112, 112, 16)
    assert first.origin == TensorOrigin("relu", 2, "NHWC", DType.FLOAT32, (1, 64, 112, 112))
    assert second.origin == TensorOrigin("", 1, "ND")


def test_attributes_are_small_and_json_able(graph_of):
    graph = graph_of(BUILD)
    attrs = graph.ops[2].attrs
    assert json.loads(json.dumps(dict(attrs)))
    assert attrs["_datadump_is_multiop"] is True
    assert attrs["_L1_fusion_sub_graph_no"] == "2"
    assert attrs["fusion_scope"] == -3
    assert attrs["pass_name"] == ("OnePass", "TwoPass")
    assert attrs["ratio"] == 1e-05
    assert attrs["ranges"] == ((1, 2),)
    assert attrs["sub"] == "function f"
    assert attrs["_tbe_kernel_buffer"] == "bytes, 17 characters as text"
    assert graph.ops[1].attrs["value"] == "tensor bfloat16[4]"
    assert "newer" not in attrs
    assert "no_value" not in attrs


def test_sub_graphs_know_their_owner_and_ports(graph_of):
    graph = graph_of(CALLS)
    body, cond, loop = graph.subgraphs
    assert (body.owner, body.role) == ("call", "f")
    assert body.inputs == ((0, "body/e"), (1, "body/d"))
    assert body.outputs == ((0, TensorRef("body/e", 0)), (1, TensorRef("body/x", 0)))
    assert (cond.owner, cond.role, cond.outputs) == ("loop", "cond", ())
    assert (loop.role, loop.outputs) == ("body", ((0, TensorRef("b/add", 0)),))
    assert graph.op_index()["loop"].owns == ("c", "b")
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert calls == {
        ("x", "body/e"),
        ("y", "body/d"),
        ("body/e", "loop"),
        ("body/x", "Node_Output"),
        ("b/add", "Node_Output"),
    }


def test_outputs_without_descriptors_are_known_from_their_readers(graph_of):
    assert [tensor.name for tensor in graph_of(CALLS).ops[2].outputs] == ["call:0", "call:1"]


def test_old_files_keep_a_descriptor_for_unconnected_inputs(graph_of):
    placeholder = 'input_desc { layout: "FORMAT_RESERVED" }\n    input_desc { dtype: DT_FLOAT attr'
    second = 'input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 }'
    text = CALLS.replace(second, second.replace("input_desc { dtype: DT_FLOAT attr", placeholder))
    assert graph_of(text).subgraphs[0].outputs[0] == (0, TensorRef("body/e", 0))


def test_what_does_not_fit_together_is_told(graph_of):
    graph = graph_of(
        CALLS.replace('input: "call:0" sub', 'input: "gone:0" input: "lost:-1" sub').replace(
            'subgraph_name: "c"', 'subgraph_name: "nowhere"'
        )
    )
    loop = graph.op_index()["loop"]
    assert loop.inputs == (InputRef("gone:0", None),)
    assert loop.control_inputs == ()
    told = "\n".join(graph.warnings)
    assert "2 inputs name an op that is not in their graph: gone:0 of loop" in told
    assert "nowhere of loop" in told
    assert "1 sub-graph belongs to no op: c" in told
    assert len(list(graph.edges())) > 0


def test_repeated_names_are_numbered(graph_of):
    graph = graph_of(
        'graph { op { name: "a" type: "Abs" } op { name: "a" type: "Neg" input: "a:0" } }'
    )
    assert [(op.id, op.name) for op in graph.ops] == [("a", "a"), ("a#2", "a")]
    assert "a#2" in graph.warnings[0]
    assert graph.name == "ge_proto_00001_Build"


def test_an_op_of_a_body_never_shares_an_id_with_the_root(graph_of):
    graph = graph_of(
        'graph { op { name: "b/a" type: "If" subgraph_name: "b" } }'
        'graph { name: "b" op { name: "a" type: "Abs" } }'
    )
    assert [op.id for op in graph.ops] == ["b/a", "b/a#2"]


def test_a_port_beyond_reason_makes_no_tensors(graph_of):
    graph = graph_of('graph { op { name: "a" } op { name: "b" input: "a:99999999999" } }')
    assert graph.ops[0].outputs == ()


def test_model_fields_around_the_graph_are_fine(graph_of):
    graph = graph_of('name: "m"\nversion: 3\n' + BUILD)
    assert len(graph.ops) == 3


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ('graph { op { type: "Abs" } }', "an op without a name"),
        ("graph { op { name: 5 } }", "5 where a text belongs"),
        ('graph { op { name: "a" id: x } }', "is no whole number"),
        ('graph { op { name: "a" attr: 5 } }', "5 where a block belongs"),
        ("graph { op { name { x: 1 } } }", "a block where a text belongs"),
        ('graph { op { name: "a" output_desc { shape { dim: "b" } } } }', "a text where a number"),
        ('graph { op: "a" }', '"a" where a block belongs'),
        ('graph { name: "empty" op: [] }', "no op in its first graph"),
        ("graph {", "ends inside 'graph' of line 1"),
    ],
)
def test_wrong_text_is_told_with_its_line(graph_of, wrong, what):
    with pytest.raises(ImportFormatError, match=re.escape(what)) as caught:
        graph_of(wrong)
    assert caught.value.line == 1


def test_a_cut_file_fails_with_a_line_or_reads(tmp_path):
    text = (BUILD + CALLS).encode()
    path = tmp_path / "ge_proto_00001_Build.txt"
    for end in range(1, len(text), 7):
        path.write_bytes(text[:end])
        failure = failure_of(path)
        assert failure is None or failure.line is not None, end


@pytest.mark.slow
def test_any_damaged_byte_ends_in_a_graph_or_an_error(tmp_path):
    text = (BUILD + CALLS).encode()
    path = tmp_path / "ge_proto_00001_Build.txt"
    rng = random.Random(7)
    contents = (changed(text, rng, b'{}":\\\x00\xff9a \n') for _ in range(600))
    assert endings(path, contents) == {"read", "refused"}


@pytest.mark.shared
def test_the_resnet50_build_graph(shared_data):
    graph = read_graph(shared_data / "ge_proto" / "ge_proto_00000062_Build.txt")
    assert (graph.name, len(graph.ops)) == ("ResNet-50_0", 170)
    assert sum(op.is_fused for op in graph.ops) == 53
    assert sum(op.is_inserted for op in graph.ops) == 112
    assert sum(edge.kind is EdgeKind.DATA for edge in graph.edges()) == 185
    assert sum(bool(t.origin and t.origin.op) for op in graph.ops for t in op.outputs) == 53
    assert (graph.ops[0].name, graph.ops[-1].name) == ("data", "Node_Output")
    assert graph.warnings == ()


@pytest.mark.shared
def test_the_resnet50_originals_are_the_layers_of_the_net(shared_data):
    graph = read_graph(shared_data / "ge_proto" / "ge_proto_00000062_Build.txt")
    net = (shared_data / "caffe" / "ResNet-50-deploy.prototxt").read_text(encoding="utf-8")
    layers = set(re.findall(r'layer \{[^}]*?name: "([^"]+)"', net, re.DOTALL))
    originals = [name for op in graph.ops for name in op.original_names or ()]
    assert len(layers) == 228
    assert len(originals) == len(set(originals)) == 224
    assert layers == set(originals) | {"pool1", "pool5", "fc1000", "prob"}
    assert {"pool1", "pool5", "fc1000", "prob"} <= {op.name for op in graph.ops}


@pytest.mark.shared
def test_the_graph_with_unknown_shape_parts(shared_data):
    graph = read_graph(shared_data / "ge_proto" / "ge_proto_00000001_Build.txt")
    root = "ge_default_20230713074125"
    assert [op.subgraph for op in graph.ops].count("") == 5
    assert len(graph.ops) == 18
    assert {body.name: body.owner for body in graph.subgraphs} == {
        f"{root}_sub_{part}": f"{root}_sub_{part}_PartitionedCall_{number}"
        for number, part in enumerate(["0_input", "1_unknow", "2_unknow", "3_unknow"])
    }
    calls = {
        (edge.source.rpartition("/")[2], edge.target.rpartition("/")[2])
        for edge in graph.edges()
        if edge.kind is EdgeKind.CALL
    }
    assert ("indices", f"{root}_sub_2_unknow_PartitionedCall_2") in calls
    assert ("GatherV2", "Node_Output") in calls


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "ops", "edges"),
    [
        ("ge_proto_00017_OptimizeOriginalGraph_FeGraphFusionAfter.txt", 710, 990),
        ("ge_proto_00046_afterUBMatch.txt", 234, 249),
    ],
)
def test_graphs_of_earlier_phases(shared_data, file, ops, edges):
    graph = read_graph(shared_data / "ge_proto" / file)
    assert (len(graph.ops), len(list(graph.edges()))) == (ops, edges)


@pytest.mark.shared
def test_the_real_graph_cut_anywhere(shared_data, tmp_path):
    text = (shared_data / "ge_proto" / "ge_proto_00000001_Build.txt").read_bytes()
    path = tmp_path / Path("ge_proto_00000001_Build.txt")
    for end in random.Random(3).sample(range(1, len(text)), 60):
        path.write_bytes(text[:end])
        failure = failure_of(path)
        assert failure is None or failure.line is not None, end


@pytest.mark.shared
@pytest.mark.parametrize(
    "file",
    [
        "ge_proto/ge_proto_00000001_Build.txt",
        "ge_proto/ge_proto_00046_afterUBMatch.txt",
        "tf_lenet_train/npu_fault/graph/ge_proto_00000343_graph_61_Build.txt",
    ],
)
def test_protobuf_reads_the_same_from_real_files(shared_data, ge_model, file):
    text = (shared_data / file).read_text(encoding="utf-8")
    model = text_format.Parse(text, ge_model(), allow_unknown_field=True)
    graph = read_graph(shared_data / file)
    nodes = [node for part in model.graph for node in part.op]
    assert [(op.name, op.type) for op in graph.ops] == [(node.name, node.type) for node in nodes]
    for op, node in zip(graph.ops, nodes, strict=True):
        data = [entry for entry in node.input if not entry.endswith(":-1")]
        assert [ref.tensor if ref else "" for ref in op.inputs] == data
        assert len(op.control_inputs) == len(node.input) - len(data)
        assert set(op.attrs) == {key for key, attr in node.attr.items() if attr.WhichOneof("value")}
        names = node.attr["_datadump_original_op_names"].list.s
        assert list(op.original_names or ()) == [name.decode() for name in names if name]
        shapes = [tuple(None if d < 0 else d for d in desc.shape.dim) for desc in node.output_desc]
        assert [tensor.shape for tensor in op.outputs][: len(shapes)] == shapes
        origins = [desc.attr["_datadump_origin_name"].s.decode() for desc in node.output_desc]
        assert [t.origin.op if t.origin else "" for t in op.outputs][: len(origins)] == origins
