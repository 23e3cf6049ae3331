"""Graphs of real files come back equal, with arrays that respect their edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphstore.contract import GraphStore
from graphstore.traverse.topological_order import graph_arrays
from importers.registry import read_graph

FILES = [
    "ge_proto/ge_proto_00000062_Build.txt",
    "ge_proto/ge_proto_00046_afterUBMatch.txt",
    "onnx/aasist_bs1_fp16.onnx",
    "tf/mtcnn.pb",
    "tf_lenet_train/model.ckpt.meta",
]
OWN = Path(__file__).parents[1] / "data"
OWN_FILES = [
    "openvino/fused.xml",
    "openvino/bodies.xml",
    "tflite/net.tflite",
    "tflite/rounds.tflite",
]
LOOPS = {"tf/mtcnn.pb": 5}


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_a_real_graph_comes_back_equal(store: GraphStore, shared_data: Path, name: str) -> None:
    graph = read_graph(shared_data / name)
    store.save_graph(graph, "real")
    assert store.graph("real") == graph
    arrays = store.arrays("real")
    assert arrays.ids == graph_arrays(graph).ids
    assert arrays.successor_ops.tolist() == graph_arrays(graph).successor_ops.tolist()
    backwards = sum(
        target <= source
        for source in range(len(arrays.ids))
        for target in arrays.successors(source).tolist()
    )
    assert backwards == LOOPS.get(name, 0), "only edges that close a loop go back"


@pytest.mark.parametrize("name", OWN_FILES)
def test_a_graph_of_another_runtime_comes_back_equal(store: GraphStore, name: str) -> None:
    graph = read_graph(OWN / name)
    store.save_graph(graph, "real")
    assert store.graph("real") == graph
