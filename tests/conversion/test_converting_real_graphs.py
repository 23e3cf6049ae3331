"""Real graphs written in other forms: read again they are what they were."""

from __future__ import annotations

import json

import networkx as nx
import onnx
import pytest
from graphs_alike import float32s, links, same

from importers.registry import read_graph

pytestmark = pytest.mark.thorough

OF_OFFLINE_MODELS = {"_tbe_kernel_buffer", "node_def", "tasks", "weight_offset", "weight_bytes"}


def comparable(value: object) -> object:
    """A JSON model without what lies in the offline model's partitions, maps as dicts."""
    places = {"data_offset", "workspace", "workspace_bytes", "weight_size", "size", "bt"}
    if isinstance(value, list) and all(isinstance(v, dict) and "key" in v for v in value):
        found = {v["key"]: comparable(v["value"] or {}) for v in value}
        return {k: v for k, v in found.items() if k not in OF_OFFLINE_MODELS}
    if isinstance(value, list):
        return [comparable(v) for v in value]
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items() if k not in places and v != {}}
    return value


@pytest.mark.shared
def test_json_of_the_offline_converter_is_written_as_it_was(divergraph, shared_data, tmp_path):
    """model.json was written by atc itself: ours of it is the same, key for key."""
    path, out = shared_data / "om" / "model.json", tmp_path / "out.json"
    assert divergraph("convert", path, "-t", "json", "-out", out).code == 0
    written, was = json.loads(out.read_text()), json.loads(path.read_text())
    assert written == was
    assert list(written) == list(was)


@pytest.mark.shared
def test_json_of_a_real_offline_model(divergraph, shared_data, tmp_path):
    """Made here of the .om, it holds what another tool made of the same file."""
    out = tmp_path / "out.json"
    path = shared_data / "om" / "autoencoder_hh_om.om"
    assert divergraph("convert", path, "-t", "json", "-out", out).code == 0
    theirs = json.loads((shared_data / "dumps" / "autoencoder_hh" / "hh_om.json").read_text())
    ours = json.loads(out.read_text())
    assert [op["name"] for op in ours["graph"][0]["op"]] == [
        op["name"] for op in theirs["graph"][0]["op"]
    ]
    assert comparable(ours["graph"]) == comparable(theirs["graph"])


GE_FILES = [
    "ge_proto/ge_proto_00000001_Build.txt",
    "ge_proto/ge_proto_00000062_Build.txt",
    "ge_proto/ge_proto_00017_OptimizeOriginalGraph_FeGraphFusionAfter.txt",
    "ge_proto/ge_proto_00046_afterUBMatch.txt",
    "ge_proto/ge_onnx_00000000_graph_1_Build.pbtxt",
    "om/autoencoder_hh_om.om",
    "om/dynamic_and_static_graph_without_unfold.om",
    "om/model.json",
]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", GE_FILES)
@pytest.mark.parametrize("form", ["ge_proto", "json"])
def test_real_device_graphs_come_back(divergraph, shared_data, tmp_path, name, form):
    out = tmp_path / "out"
    assert divergraph("convert", shared_data / name, "-t", form, "-out", out).code == 0
    same(read_graph(shared_data / name), read_graph(out), without=OF_OFFLINE_MODELS)


ORIGINAL_FILES = [
    "tf/PNet-18.meta",
    "tf/autoencoder_hh.pb",
    "tf/mtcnn.pb",
    "tf/tf2onnx_lstm_frozen.pb",
    "tf/tf2onnx_regression_saved_model.pb",
    "tf_lenet_train/model.ckpt.meta",
    "onnx/aasist_bs1_ori.onnx",
    "onnx/aasist_bs1_qdq_int8.onnx",
    "caffe/bvlc_googlenet_deploy.prototxt",
    "caffe/mtcnn_det1.caffemodel",
]


@pytest.mark.shared
@pytest.mark.parametrize("name", ORIGINAL_FILES)
def test_real_graphs_of_frameworks_come_back(divergraph, shared_data, tmp_path, name):
    """All but the names of tensors, for which GE has its own."""
    out = tmp_path / "out.txt"
    assert divergraph("convert", shared_data / name, "-t", "ge_proto", "-out", out).code == 0
    graph, again = read_graph(shared_data / name), read_graph(out)
    assert links(again) == links(graph)
    for was, is_now in zip(graph.ops, again.ops, strict=True):
        assert (is_now.id, is_now.name, is_now.type) == (was.id, was.name, was.type)
        assert float32s(is_now.attrs) == float32s(was.attrs)
        assert [(t.dtype, t.shape, t.layout, t.origin) for t in is_now.outputs] == [
            (t.dtype, t.shape, t.layout, t.origin) for t in was.outputs
        ]


@pytest.mark.shared
@pytest.mark.parametrize("form", ["onnx-json", "dot", "graphml", "model-explorer"])
@pytest.mark.parametrize("name", [*GE_FILES[:2], "om/model.json", *ORIGINAL_FILES[:1]])
def test_real_graphs_become_every_format(divergraph, shared_data, tmp_path, name, form):
    out = tmp_path / "out"
    assert divergraph("convert", shared_data / name, "-t", form, "-out", out).code == 0
    graph = read_graph(shared_data / name)
    if form == "graphml":
        assert nx.read_graphml(out).number_of_nodes() == len(graph.ops)
    elif form == "dot":
        text = out.read_text(encoding="utf-8")
        assert text.count("tooltip=") == len(graph.ops)
    elif form == "onnx-json":
        assert onnx.load(out, format="json").graph.name == graph.name
    else:
        assert len(json.loads(out.read_text())["graphs"][0]["nodes"]) == len(graph.ops)
