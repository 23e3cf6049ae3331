"""``divergraph convert GRAPH``: what other tools read, checked with their own parsers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import onnx
import pytest
from graphs_alike import float32s, links, same
from onnx import TensorProto, helper

from divergraph.graph_formats.graphml import as_networkx, write_graphml
from divergraph.graph_formats.side import ShownGraph
from graphstore.model import EdgeKind
from importers.registry import read_graph


@pytest.fixture(scope="module")
def onnx_model(tmp_path_factory) -> Path:
    """An If whose one branch takes a tensor from around it, a constant and odd names."""
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [
            helper.make_node("Add", ["x", "y"], ["t"], name="inner add"),
            helper.make_node("Relu", ["t"], ["to"], name="w"),
        ],
        "then",
        [],
        [value("to", TensorProto.FLOAT, [2])],
    )
    otherwise = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["e"], name="inner")],
        "else",
        [],
        [value("e", TensorProto.FLOAT, [2])],
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["y"], name='neg "quoted" {a|b} <c>\\n'),
        helper.make_node("If", ["c"], ["z"], name="iff", then_branch=then, else_branch=otherwise),
        helper.make_node("LeakyRelu", ["z"], ["q"], name="scope/w", alpha=0.1),
    ]
    graph = helper.make_graph(
        nodes,
        "net & <graph>",
        [value("x", TensorProto.FLOAT, [2]), value("c", TensorProto.BOOL, [])],
        [value("q", TensorProto.FLOAT, [2])],
        [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("form", ["ge_proto", "json"])
def test_a_ge_graph_comes_back_whole(divergraph, text_model, tmp_path, form):
    out = tmp_path / "out.any"
    done = divergraph("convert", text_model, "-t", form, "-out", out)
    assert (done.code, done.err) == (0, f"wrote {out}\n")
    same(read_graph(text_model), read_graph(out))


def test_the_text_is_one_protobuf_prints(divergraph, text_model, tmp_path):
    """Converted once more it does not change, byte for byte; it is ASCII as GE's files."""
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    divergraph("convert", text_model, "-t", "ge_proto", "-out", first)
    divergraph("convert", first, "-t", "ge_proto", "-out", second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().isascii()
    assert '  name: "net_1"' in first.read_text().splitlines()


def test_the_json_is_that_of_the_offline_converter(divergraph, text_model, tmp_path):
    """Maps as lists of key and value, floats as texts, sorted keys, no defaults."""
    out = tmp_path / "model.json"
    divergraph("convert", text_model, "-t", "json", "-out", out)
    content = json.loads(out.read_text(encoding="utf-8"))
    assert list(content) == ["attr", "graph"]
    assert content["attr"] == [{"key": "soc_version", "value": {"s": "Ascend310"}}]
    relu = content["graph"][0]["op"][2]
    attrs = {entry["key"]: entry["value"] for entry in relu["attr"]}
    assert attrs["alpha"] == {"f": "0.1"}
    assert attrs["flag"] == {"b": False}
    assert attrs["nothing"] == {"list": {"val_type": "VT_LIST_STRING"}}
    assert relu["input_desc"] == [{"dtype": "DT_FLOAT16", "layout": "NC1HWC0"}]
    assert "id" not in content["graph"][0]["op"][0]


@pytest.mark.parametrize("form", ["ge_proto", "json"])
def test_a_stored_graph_comes_back(divergraph, text_model, tmp_path, form):
    store, out = tmp_path / "store", tmp_path / "again"
    divergraph("import", text_model, "--name", "net", "--store", store)
    assert divergraph("convert", "net", "--store", store, "-t", form, "-out", out).code == 0
    same(read_graph(text_model), read_graph(out))


def test_bodies_of_other_frameworks_get_what_ge_needs(divergraph, onnx_model, tmp_path):
    out = tmp_path / "out.txt"
    done = divergraph("convert", onnx_model, "-t", "ge_proto", "-out", out)
    assert done.code == 0
    assert "1 tensor led into a body through a Data op" in done.err
    assert "2 sub-graphs given a NetOutput op" in done.err
    graph, again = read_graph(onnx_model), read_graph(out)
    added = {op.id for op in again.ops} - {op.id for op in graph.ops}
    assert added == {
        "iff/then_branch/captured_0",
        "iff/then_branch/Node_Output",
        "iff/else_branch/Node_Output",
    }
    roles = {body.name: (body.owner, body.role, body.outputs) for body in graph.subgraphs}
    assert {b.name: (b.owner, b.role, b.outputs) for b in again.subgraphs} == roles
    calls = {link for link in links(again) if link[-1] is EdgeKind.CALL}
    neg = graph.ops[0].id
    assert (neg, "iff/then_branch/captured_0", 0, 0, EdgeKind.CALL) in calls
    by_id = again.op_index()
    for op in graph.ops:
        assert by_id[op.id].type == op.type
        assert float32s(by_id[op.id].attrs) == float32s(op.attrs)
    # An initializer named as an op is still no op.
    assert by_id["iff/else_branch/inner"].inputs[1].producer is None


def test_onnx_json_is_read_by_onnx(divergraph, onnx_model, tmp_path):
    out = tmp_path / "model.onnx.json"
    assert divergraph("convert", onnx_model, "-t", "onnx-json", "-out", out).code == 0
    model, was = onnx.load(out, format="json"), onnx.load(onnx_model)
    assert [(n.name, n.op_type, list(n.input), list(n.output)) for n in model.graph.node] == [
        (n.name, n.op_type, list(n.input), list(n.output)) for n in was.graph.node
    ]
    branches = {a.name: [n.name for n in a.g.node] for a in model.graph.node[1].attribute}
    assert branches == {"then_branch": ["inner add", "w"], "else_branch": ["inner"]}
    assert model.graph.node[2].attribute[0].f == np.float32(0.1)
    assert {each.name for each in model.graph.input} == {"x", "c", "w"}


def test_onnx_json_of_a_device_graph(divergraph, text_model, tmp_path):
    out = tmp_path / "model.json"
    assert divergraph("convert", text_model, "-t", "onnx-json", "-out", out).code == 0
    graph = onnx.load(out, format="json").graph
    call, relu = graph.node[1:]
    assert (relu.op_type, relu.domain) == ("ge:Relu", "ascend")
    assert list(relu.input) == ["scope/call:0", "x:-1"]
    originals = {a.name: list(a.strings) for a in relu.attribute}["_datadump_original_op_names"]
    assert originals == [b"conv1", b"relu1"]
    assert [[n.name for n in a.g.node] for a in call.attribute] == [["data", "conv", "out"]]
    types = {each.name: each.type.tensor_type.elem_type for each in graph.value_info}
    assert types["x:0"] == TensorProto.FLOAT


@pytest.fixture(scope="module")
def graphviz() -> Callable[[str, Path], str]:
    """Runs Graphviz's ``dot`` on a file (or the port of it to Rust that pip installs)."""
    near = Path(sys.executable).with_name("graphviz-pure")
    tool = shutil.which("dot") or (str(near) if near.exists() else None)
    if tool is None:
        pytest.skip("neither Graphviz nor graphviz-pure is installed")

    def draw(form: str, path: Path) -> str:
        command = [tool, f"-T{form}", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return draw


def test_dot_is_read_by_graphviz(divergraph, graphviz, onnx_model, text_model, tmp_path):
    for path in (onnx_model, text_model):
        out = tmp_path / "graph.dot"
        assert divergraph("convert", path, "-t", "dot", "-out", out).code == 0
        drawn, graph = json.loads(graphviz("dot_json", out)), read_graph(path)
        clusters = {each["label"]: each for each in drawn["objects"] if "nodes" in each}
        tips = {
            each["_gvid"]: each["tooltip"].replace("\\\\", "\\")
            for each in drawn["objects"]
            if "nodes" not in each
        }
        assert sorted(tips.values()) == sorted(op.id for op in graph.ops)
        edges = [(tips[edge["tail"]], tips[edge["head"]]) for edge in drawn["edges"]]
        assert Counter(edges) == Counter((edge.source, edge.target) for edge in graph.edges())
        for body in graph.subgraphs:
            inside = {tips[number] for number in clusters[body.name]["nodes"]}
            assert inside == {op.id for op in graph.ops if op.subgraph == body.name}


def test_dot_is_drawn_with_names_as_they_are(divergraph, graphviz, onnx_model, tmp_path):
    out = tmp_path / "graph.dot"
    divergraph("convert", onnx_model, "-t", "dot", "-out", out)
    drawn = graphviz("svg", out)
    assert "neg &quot;quoted&quot; {a|b} &lt;c&gt;\\n" in drawn
    assert drawn.count('class="cluster"') == 2


@pytest.mark.parametrize("form", ["dot", "graphml", "model-explorer", "onnx-json", "ge_proto"])
def test_names_with_control_characters_harm_no_format(divergraph, tmp_path, form):
    hostile = 'a\\000\\033[2J\\"]; evil -> b; <x>&amp;\\n\\303\\251\\377'
    path = tmp_path / "ge_proto_1.txt"
    path.write_text(
        f'graph {{ name: "{hostile}" op {{ name: "{hostile}" type: "T" id: 1 }}\n'
        f'op {{ name: "b" type: "T" input: "{hostile}:0" }} }}'
    )
    out = tmp_path / "out"
    assert divergraph("convert", path, "-t", form, "-out", out).code == 0
    data = out.read_bytes()
    assert b"\0" not in data
    assert b"\x1b" not in data
    if form == "graphml":
        assert nx.read_graphml(out).number_of_edges() == 1
    elif form == "ge_proto":
        same(read_graph(path), read_graph(out))
    elif form != "dot":
        json.loads(data)


def test_graphml_of_a_file(divergraph, onnx_model, tmp_path):
    out = tmp_path / "graph.graphml"
    assert divergraph("convert", onnx_model, "-t", "graphml", "-out", out).code == 0
    found, graph = nx.read_graphml(out, force_multigraph=True), read_graph(onnx_model)
    assert set(found.nodes) == {op.id for op in graph.ops}
    assert {node: data["type"] for node, data in found.nodes(data=True)} == {
        op.id: op.type for op in graph.ops
    }
    assert found.number_of_edges() == len(list(graph.edges()))


def test_graphml_is_what_networkx_would_write_of_the_same_graph(onnx_model, tmp_path):
    graph = read_graph(onnx_model)
    last = replace(graph.ops[-1], inputs=graph.ops[-1].inputs * 2, name="<&'\"> \t\n")
    shown = ShownGraph(replace(graph, ops=(*graph.ops[:-1], last)), 'a "graph"')
    write_graphml(shown, tmp_path / "ours.graphml")
    expected = as_networkx(shown)
    for _, attributes in expected.nodes(data=True):
        for name in ("shape", "originals"):
            sizes = ("?" if size is None else str(size) for size in attributes[name])
            attributes[name] = ",".join(sizes)
    nx.write_graphml(expected, tmp_path / "theirs.graphml")
    ours, theirs = (
        nx.read_graphml(tmp_path / f"{who}.graphml", force_multigraph=True)
        for who in ("ours", "theirs")
    )
    assert max(key for *_, key in ours.edges(keys=True)) > 0, "one op reads a tensor twice"
    assert nx.utils.graphs_equal(ours, theirs)


def explorer_names(graph: dict) -> dict[str, str]:
    return {node["id"]: node["namespace"] for node in graph["nodes"]}


def test_a_model_explorer_collection(divergraph, onnx_model, tmp_path):
    out = tmp_path / "model.json"
    assert divergraph("convert", onnx_model, "-t", "model-explorer", "-out", out).code == 0
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["label"] == "net & <graph>"
    (graph,) = content["graphs"]
    assert explorer_names(graph)["scope/w"] == "scope"
    assert explorer_names(graph)["iff/then_branch/w"] == "iff_then_branch"
    ids = explorer_names(graph).keys()
    edges = [(edge["sourceNodeId"], node) for node in ids for edge in _incoming(graph, node)]
    assert Counter(edges) == Counter((e.source, e.target) for e in read_graph(onnx_model).edges())
    last = next(node for node in graph["nodes"] if node["id"] == "scope/w")
    assert {"key": "alpha", "value": "0.1"} in [
        {**each, "value": each["value"][:3]} for each in last["attrs"]
    ]
    assert {"key": "shape", "value": "float32[2]"} in last["outputsMetadata"][0]["attrs"]


def _incoming(graph: dict, node: str) -> list[dict]:
    return next(each for each in graph["nodes"] if each["id"] == node)["incomingEdges"]


@pytest.mark.slow
def test_a_run_in_model_explorer_has_its_metrics(divergraph, lenet, tmp_path):
    store, out = tmp_path / "store", tmp_path / "out"
    divergraph(
        *("compare", "--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden"),
        *("--device", lenet / "npu_fault" / "graph"),
        *("--device-dump", lenet / "npu_fault" / "dump", "--run", "fault", "--store", store),
    )
    out.mkdir()
    done = divergraph(
        *("convert", "fault", "--store", store, "-t", "model-explorer", "-out", out, "--json")
    )
    assert done.code == 0
    names = {Path(path).name for path in done.json["written"]}
    assert {"fault.model_explorer.json", "fault.cosine_similarity.node_data.json"} <= names
    (graph,) = json.loads((out / "fault.model_explorer.json").read_text())["graphs"]
    data = json.loads((out / "fault.cosine_similarity.node_data.json").read_text())
    results = data[graph["id"]]["results"]
    assert set(results) <= explorer_names(graph).keys()
    assert results["LeNet/conv2/Conv2DRelu"]["value"] == pytest.approx(0.9936, abs=1e-4)
    for form in ("dot", "graphml", "onnx-json", "ge_proto"):
        assert divergraph("convert", "fault", "--store", store, "-t", form, "-out", out).code == 0
    assert '"#d7301f"' in (out / "fault.dot").read_text()
    assert nx.read_graphml(out / "fault.graphml").nodes["LeNet/conv2/Conv2DRelu"]["state"]
    assert divergraph("export", "fault", "--store", store, "-o", tmp_path / "x.graphml").code == 0
    exported, converted = (
        nx.read_graphml(at) for at in (tmp_path / "x.graphml", out / "fault.graphml")
    )
    assert dict(exported.nodes) == dict(converted.nodes), "one schema, whoever writes it"
    assert (tmp_path / "x.graphml").read_bytes() == (out / "fault.graphml").read_bytes()
    assert exported.nodes["LeNet/conv2/Conv2DRelu"]["fused"] == 3
    golden = divergraph(
        *("convert", "fault", "--store", store, "--side", "golden", "-t", "dot", "-out", out)
    )
    assert golden.code == 0
    assert "#d7301f" not in (out / "fault.dot").read_text()


def test_a_folder_names_the_file_after_the_graph(divergraph, text_model, tmp_path):
    out = tmp_path / "new"
    done = divergraph("convert", text_model, "-t", "json", "-out", f"{out}/", "--json")
    assert done.json == {
        "graph": str(text_model),
        "type": "json",
        "ops": 6,
        "written": [str(out / f"{text_model.stem}.json")],
        "notes": [],
    }
    # A folder of GE's texts is read as the graph that ran.
    assert divergraph("convert", text_model.parent, "-t", "dot", "-out", out).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ge.txt"], "say what to write with -t"),
        (["ge.txt", "-t", "npy", "-out", "x"], "-t npy is for dumps"),
        (["ge.txt", "-t", "dot"], "say where to write with -o"),
        (["ge.txt", "-t", "gexf", "-out", "x"], "'gexf' is not one of"),
        (["ge.txt", "-t", "dot", "-out", "no/where"], "no such folder"),
        (["ge.txt", "-t", "dot", "-out", "ge.txt/x/"], "the folder cannot be made"),
        (["ge.txt", "-t", "dot", "-out", "x", "-f", "NCHW"], "-f is for dumps"),
        (["gone.om", "-t", "dot", "-out", "x"], "gone.om: no such file or folder"),
        (["net", "-t", "dot", "-out", "x"], "no such file, and the store has no run or graph"),
        (["net", "--store", "s", "-t", "dot", "-out", "x"], "no run or graph named 'net'"),
        (["image.png", "-t", "dot", "-out", "x"], "this is a PNG picture, not a graph"),
        (["cut.txt", "-t", "ge_proto", "-out", "x"], "cut.txt:"),
        (["array.npy", "-t", "json", "-out", "x"], "this is a numpy array, not a graph"),
    ],
)
def test_bad_input_is_one_line(divergraph, tmp_path, monkeypatch, text_model, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    (tmp_path / "ge.txt").write_bytes(text_model.read_bytes())
    (tmp_path / "cut.txt").write_bytes(text_model.read_bytes()[:700])
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 64)
    np.save(tmp_path / "array.npy", np.ones(3))
    done = divergraph("convert", *arguments)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert not (tmp_path / "x").exists()


FULL = """
import resource, sys
from divergraph.cli.main import run
sys.dont_write_bytecode = True  # cut modules would be kept
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "form", ["json", "ge_proto", "onnx-json", "dot", "graphml", "model-explorer"]
)
def test_a_full_disk_leaves_nothing(tmp_path, text_model, form):
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-c", FULL, "convert", text_model, "-t", form, "-out", out / "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(out.iterdir()) == []


def test_onnx_json_has_producers_first_whatever_order_the_graph_file_has(divergraph, tmp_path):
    source, out = tmp_path / "graph.pbtxt", tmp_path / "graph.onnx.json"
    source.write_text(
        'node { name: "last" op: "Relu" input: "mid" }\n'
        'node { name: "mid" op: "Relu" input: "first" }\n'
        'node { name: "first" op: "Placeholder" }\n'
    )
    assert divergraph("convert", source, "-t", "onnx-json", "-out", out).code == 0
    nodes = json.loads(out.read_text())["graph"]["node"]
    assert [node["name"] for node in nodes] == ["first", "mid", "last"]
