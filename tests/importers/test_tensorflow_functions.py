"""Functions, control flow old and new, and collections of TensorFlow graphs."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, EdgeKind, TensorRef
from graphstore.traverse.topological_order import topo_order
from importers.dumps.arrays.golden_names import GoldenNames
from importers.proto.messages import tf_graph_pb2 as pb
from importers.registry import read_graph

LIBRARY = """
library {
  function {
    signature {
      name: "best"
      input_arg { name: "x" type_attr: "T" }
      output_arg { name: "sum" type: DT_FLOAT } output_arg { name: "second" type: DT_INT32 }
      output_arg { name: "same" type_attr: "T" }
    }
    node_def { name: "k" op: "Const" input: "^x"
               attr { key: "dtype" value { type: DT_INT32 } } }
    node_def { name: "top" op: "TopKV2" input: "x" input: "k:output:0"
               attr { key: "T" value { placeholder: "T" } } }
    node_def { name: "used" op: "Cast" input: "top:indices:0"
               attr { key: "DstT" value { type: DT_FLOAT } } }
    node_def { name: "sum" op: "Add" input: "top:values:0" input: "used:y:0" input: "^k"
               attr { key: "T" value { placeholder: "T" } } }
    ret { key: "sum" value: "sum:z:0" }
    ret { key: "second" value: "top:indices:0" }
    ret { key: "same" value: "x" }
  }
  function {
    signature { name: "outer" input_arg { name: "a" type: DT_FLOAT }
                output_arg { name: "r" type: DT_FLOAT } }
    node_def { name: "call" op: "StatefulPartitionedCall" input: "a"
               attr { key: "f" value { func { name: "best"
                 attr { key: "T" value { type: DT_HALF } } } } }
               attr { key: "Tout" value { list { type: [DT_FLOAT, DT_INT32, DT_HALF] } } } }
    node_def { name: "cast" op: "Cast" input: "call:output:1"
               attr { key: "DstT" value { type: DT_FLOAT } } }
    ret { key: "r" value: "cast:y:0" }
  }
  function {
    signature { name: "again" input_arg { name: "a" type: DT_FLOAT }
                output_arg { name: "r" type: DT_FLOAT } }
    node_def { name: "loop" op: "again" input: "a" }
    ret { key: "r" value: "loop:r:0" }
  }
}
"""
X = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
"""


def func(name: str) -> str:
    return f'func {{ name: "{name}" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}'


@pytest.fixture(params=["text", "binary"])
def graph_of(request, tmp_path):
    def read(text: str):
        path = tmp_path / "net.pb"
        if request.param == "text":
            path.write_text(text)
        else:
            path.write_bytes(text_format.Parse(text, pb.GraphDef()).SerializeToString())
        return read_graph(path)

    return read


def test_a_called_function_is_a_body_of_the_op(graph_of):
    call = 'node { name: "y" op: "PartitionedCall" input: "x"'
    types = 'attr { key: "Tout" value { list { type: [DT_FLOAT, DT_INT32, DT_FLOAT] } } }'
    reader = 'node { name: "z" op: "Abs" input: "y:1" }'
    called = f'attr {{ key: "f" value {{ {func("best")} }} }}'
    graph = graph_of(f"{X} {call} {called} {types} }} {reader} {LIBRARY}")
    ops = graph.op_index()
    assert ops["y"].owns == ("y/f",)
    body = [op.id for op in graph.ops if op.subgraph == "y/f"]
    assert body == ["y/f/k", "y/f/top", "y/f/used", "y/f/sum"]
    (subgraph,) = graph.subgraphs
    assert (subgraph.owner, subgraph.role, subgraph.inputs) == ("y", "f", ((0, "y/f/top"),))
    assert subgraph.outputs == ((0, TensorRef("y/f/sum", 0)), (1, TensorRef("y/f/top", 1)))
    assert [str(ref.producer) for ref in ops["y/f/sum"].inputs] == ["y/f/top:0", "y/f/used:0"]
    assert ops["y/f/used"].inputs[0].producer == TensorRef("y/f/top", 1)
    assert ops["y/f/sum"].control_inputs == ("y/f/k",)
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert calls == {("x", "y/f/top"), ("y/f/top", "z")}
    said = " ".join(graph.warnings)
    assert "^x" not in said, "k waits for an argument, which is nothing that is missing"


def test_a_body_takes_the_types_its_caller_gives(graph_of):
    graph = graph_of(X + """
      node { name: "y" op: "outer" input: "x" }
    """ + LIBRARY)  # fmt: skip
    ops = graph.op_index()
    inner = "y/f/call/f"
    assert [tensor.dtype for tensor in ops[f"{inner}/top"].outputs] == [
        DType.FLOAT16,
        DType.INT32,
    ]
    assert ops[f"{inner}/sum"].attrs["T"] == "float16"
    assert ops["y"].outputs[0].dtype is DType.FLOAT32
    assert [body.name for body in graph.subgraphs] == ["y/f", inner]
    calls = {(e.source, e.target) for e in graph.edges() if e.kind is EdgeKind.CALL}
    assert ("x", f"{inner}/top") in calls  # handed on by the function around it


def test_ops_of_functions_are_found_by_the_names_inlining_gives_them(graph_of):
    from divergraph.graphs.lineage.golden_tensors import GoldenTensors

    text = (
        X
        + """
      node { name: "sum" op: "Abs" input: "x" }
      node { name: "one" op: "outer" input: "sum" } node { name: "two" op: "outer" input: "one" }
    """
    )
    graph = graph_of(text + LIBRARY)
    ops = graph.op_index()
    golden = GoldenTensors.of(graph)
    assert golden.op("two/call/sum") is ops["two/f/call/f/sum"]
    assert golden.op("one/cast") is ops["one/f/cast"]
    assert golden.op("sum") is ops["sum"]
    stamp = "0.1600000000000000"
    for name, op in (("two_call_sum", "two/f/call/f/sum"), ("one_cast", "one/f/cast")):
        assert [hit.op.id for hit in GoldenNames(graph).find(f"{name}.{stamp}")] == [op]


@pytest.mark.parametrize(
    ("op", "attrs", "bodies"),
    [
        (
            "If",
            {"then_branch": "best", "else_branch": "outer"},
            {"y/then_branch": (1, 1), "y/else_branch": (1, 1)},
        ),
        ("StatelessWhile", {"cond": "outer", "body": "best"}, {"y/body": (0, 1), "y/cond": (0, 0)}),
        ("MapDataset", {"f": "best"}, {"y/f": (None, 0)}),
        ("SymbolicGradient", {"f": "outer"}, {"y/f": (0, 0)}),
        ("For", {"body": "best"}, {"y/body": (None, 1)}),
    ],
)
def test_what_ops_with_functions_pass_on(graph_of, op, attrs, bodies):
    """Which input the first argument takes, and whether results are the op's outputs."""
    listed = " ".join(
        f'attr {{ key: "{key}" value {{ {func(name)} }} }}' for key, name in attrs.items()
    )
    graph = graph_of(
        f'{X} node {{ name: "y" op: "{op}" input: "x" input: "p" {listed} }} {LIBRARY}'
    )
    found = {
        body.name: (body.inputs[0][0] if body.inputs else None, int(bool(body.outputs)))
        for body in graph.subgraphs
        if body.owner == "y"
    }
    assert found == bodies


def test_each_branch_of_a_case_is_a_body(graph_of):
    graph = graph_of(X + """
      node { name: "y" op: "StatelessCase" input: "p" input: "x"
             attr { key: "branches" value { list {
               func { name: "best" } func { name: "outer" } } } } }
    """ + LIBRARY)  # fmt: skip
    owned = [body.name for body in graph.subgraphs if body.owner == "y"]
    assert owned == ["y/branches_0", "y/branches_1"]


def test_a_function_inside_itself_is_told(graph_of):
    graph = graph_of(X + 'node { name: "y" op: "again" input: "x" }' + LIBRARY)
    assert [op.id for op in graph.ops] == ["x", "p", "y", "y/f/loop"]
    assert graph.warnings == (
        "1 call of a function inside itself was not expanded: again in y/f/loop",
        "2 library functions are called by nothing and were left out: best, outer",
    )


def test_functions_that_would_grow_without_end_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("importers.names.MAX_BODY_OPS", 2_000)
    graph = pb.GraphDef(node=[pb.NodeDef(name="start", op="f0")])
    for level in range(40):
        function = graph.library.function.add()
        function.signature.name = f"f{level}"
        for side in ("left", "right"):
            function.node_def.add(name=side, op=f"f{level + 1}")
    path = tmp_path / "bomb.pb"
    path.write_bytes(graph.SerializeToString())
    read = read_graph(path)
    assert 1_000 < len(read.ops) <= 2_001
    assert any("there are too many" in told for told in read.warnings)


def loop(frame: str, value: str, inner: str = "") -> str:
    """A loop of the old kind around *value*; *inner* is what its body computes from."""
    body = inner or f"{frame}/Switch:1"
    return f"""
      node {{ name: "{frame}/Enter" op: "Enter" input: "{value}"
              attr {{ key: "frame_name" value {{ s: "{frame}" }} }} }}
      node {{ name: "{frame}/Merge" op: "Merge" input: "{frame}/Enter" input: "{frame}/Next" }}
      node {{ name: "{frame}/Switch" op: "Switch" input: "{frame}/Merge" input: "{frame}/p" }}
      node {{ name: "{frame}/p" op: "Enter" input: "p"
              attr {{ key: "frame_name" value {{ s: "{frame}" }} }} }}
      node {{ name: "{frame}/Exit" op: "Exit" input: "{frame}/Switch" }}
      node {{ name: "{frame}/Add" op: "Add" input: "{body}" input: "{frame}/one" }}
      node {{ name: "{frame}/one" op: "Const" input: "^{frame}/Switch" }}
      node {{ name: "{frame}/Next" op: "NextIteration" input: "{frame}/Add" }}
    """


def test_ops_in_old_loops_say_which(graph_of):
    inner = loop("inner", "outer/Switch:1").replace('input: "p"', 'input: "outer/p"')
    text = X + loop("outer", "x", "inner/Exit") + inner
    graph = graph_of(text + 'node { name: "y" op: "Abs" input: "outer/Exit" }')
    frames = {op.name: op.attrs.get("frame") for op in graph.ops}
    assert frames["x"] is frames["y"] is None
    assert {frames[f"outer/{name}"] for name in ("Enter", "Merge", "Exit", "one", "Next")} == {
        "outer"
    }
    assert {frames[f"inner/{name}"] for name in ("Enter", "Merge", "Exit", "one", "Add")} == {
        "outer/inner"
    }
    assert len(topo_order(graph)) == len(graph.ops)


@pytest.mark.parametrize("as_text", [False, True])
def test_collections_signatures_and_contexts(tmp_path, as_text):
    meta = text_format.Parse(X, pb.GraphDef())
    meta = pb.MetaGraphDef(graph_def=meta)
    meta.meta_info_def.tensorflow_version = "1.15.0"
    kept = meta.collection_def
    kept["train_op"].node_list.value.append("x")
    # A VariableDef: its name, then its initializer.
    kept["trainable_variables"].bytes_list.value.append(b"\x0a\x03w:0\x12\x08w/Assign")
    kept["numbers"].int64_list.value.extend([3, 4])
    kept["rates"].float_list.value.append(0.5)
    kept["any"].any_list.value.add(type_url="type.googleapis.com/x")
    outer = pb.CondContext(context_name="outer")
    outer.values_def.values.extend(["x:0", "p:0", "other"])
    inner = outer.nested_contexts.add().while_ctxt
    inner.context_name = "inner"
    inner.values_def.values.append("p:0")
    kept["cond_context"].bytes_list.value.extend([outer.SerializeToString(), b"\xff\xff"])
    meta.signature_def["serve"].inputs["a"].name = "x:0"
    meta.signature_def["serve"].outputs["b"].name = "p:0"
    path = tmp_path / "model.meta"
    text = text_format.MessageToString(meta).encode()
    path.write_bytes(text if as_text else meta.SerializeToString())
    graph = read_graph(path)
    assert graph.attrs["collection train_op"] == ("x",)
    assert graph.attrs["collection trainable_variables"] == ("w:0",)
    assert graph.attrs["collection numbers"] == (3, 4)
    assert graph.attrs["collection rates"] == (0.5,)
    assert graph.attrs["collection any"] == ("type.googleapis.com/x",)
    assert graph.attrs["signature serve"] == "a=x:0 -> b=p:0"
    assert graph.attrs["collection cond_context"][0] == "outer"
    assert [op.attrs["control_context"] for op in graph.ops] == ["outer", "inner"]


def test_values_of_constants_are_left_in_the_file(tmp_path):
    """A graph with a constant larger than a message may be is still read."""
    node = pb.NodeDef(name="c", op="Const")
    node.attr["dtype"].type = pb.DT_FLOAT
    node.attr["value"].tensor.tensor_shape.dim.add(size=1_000_000)
    value = node.attr["value"].tensor.SerializeToString()
    content = b"\x22" + b"\x80\x92\xf4\x01" + bytes(4_000_000)  # tensor_content
    tensor = value + content
    length = pb.AttrValue(s=tensor).SerializeToString()
    node.attr["value"].Clear()
    attr = b"\x42" + length[1:]  # the tensor of an AttrValue has number 8, a text 2
    entry = b"\x0a\x05value\x12" + pb.AttrValue(s=attr).SerializeToString()[1:]
    raw = pb.NodeDef(name="c", op="Const").SerializeToString()
    raw += b"\x2a" + pb.AttrValue(s=entry).SerializeToString()[1:]
    path = tmp_path / "big.pb"
    path.write_bytes(b"\x0a" + pb.AttrValue(s=raw).SerializeToString()[1:])
    (op,) = read_graph(path).ops
    assert op.outputs[0].shape == (1_000_000,)


def test_the_graph_of_a_saved_model_is_chosen_by_its_tags(tmp_path):
    saved = pb.SavedModel(saved_model_schema_version=1)
    for tags, name in ((["train"], "t"), (["serve"], "s"), (["serve", "gpu"], "g")):
        meta = saved.meta_graphs.add()
        meta.meta_info_def.tags.extend(tags)
        meta.meta_info_def.tensorflow_version = "1.15.0"
        meta.graph_def.node.add(name=name, op="NoOp")
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert [op.name for op in read_graph(tmp_path).ops] == ["s"]
    graph = read_graph(tmp_path, {"tags": "serve,gpu"})
    assert [op.name for op in graph.ops] == ["g"]
    assert graph.warnings == ("of 3 graphs the one with tags gpu serve was read",)
    with pytest.raises(InputError, match=r"no graph has the tags tpu .there are: train, serve"):
        read_graph(tmp_path, {"tags": "tpu"})


def test_a_folder_of_checkpoints_is_the_latest_of_them(tmp_path):
    for step in (1, 2):
        meta = pb.MetaGraphDef()
        meta.meta_info_def.tensorflow_version = "1.15.0"
        meta.graph_def.node.add(name=f"step{step}", op="NoOp")
        (tmp_path / f"model.ckpt-{step}.meta").write_bytes(meta.SerializeToString())
    listed = tmp_path / "checkpoint"
    listed.write_text('model_checkpoint_path: "/elsewhere/model.ckpt-2"\n')
    assert [op.name for op in read_graph(tmp_path).ops] == ["step2"]
    for wrong in ('"../.."', '".."', '""', '"model.ckpt-9"', '"cut'):
        listed.write_text(f"model_checkpoint_path: {wrong}\n")
        with pytest.raises(ImportFormatError, match=r"such as model\.ckpt-1\.meta"):
            read_graph(tmp_path)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "attr"),
    [
        ("tf2onnx_regression_model.meta", "collection trainable_variables"),
        ("PNet-18.meta", "collection cond_context"),
        ("tf2onnx_regression_saved_model.pb", "signature serving_default"),
    ],
)
def test_real_files_keep_what_stands_beside_the_graph(shared_data, file, attr):
    assert read_graph(shared_data / "tf" / file).attrs[attr]


@pytest.mark.shared
def test_the_loops_of_a_real_graph(shared_data):
    graph = read_graph(shared_data / "tf" / "mtcnn.pb")
    enters = [op for op in graph.ops if op.type == "Enter"]
    assert len(enters) == 27
    assert all(op.attrs["frame"].rpartition("/")[2] for op in enters)
    ends = [op for op in graph.ops if op.type == "NextIteration"]
    assert all("frame" in op.attrs for op in ends)
