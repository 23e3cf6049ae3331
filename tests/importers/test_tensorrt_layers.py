"""The layers of a TensorRT engine as a device's graph."""

from __future__ import annotations

import json

import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, Framework, GraphKind, TensorRef
from importers.registry import detect, read_graph


def tensor(name, *shape, form="Row major linear FP16 format"):
    return {"Name": name, "Location": "Device", "Dimensions": shape, "Format/Datatype": form}


LAYERS = [
    {"Name": "Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", "LayerType": "Reformat",
     "Inputs": [tensor("x", -1, 3, 8, 8, form="Row major linear FP32")],
     "Outputs": [tensor("Reformatted x", -1, 3, 8, 8)], "ParameterType": "Reformat",
     "Metadata": ""},
    {"Name": "conv1 + relu1", "LayerType": "CaskConvolution", "Inputs": [tensor("Reformatted x")],
     "Outputs": [tensor("y", 1, 4, 8, 8, form="Thirty-two wide channel vectorized row major Int8")],
     "ParameterType": "Convolution", "Kernel": [3, 3], "Weights": {"Type": "Half", "Count": 108},
     "TacticName": "sm80_xmma_fprop",
     "Metadata": "[ONNX Layer: /conv1/Conv]\x1e[ONNX Layer: /relu1/Relu]"},
    {"Name": "fc", "LayerType": "gemm", "Inputs": [tensor("y")], "Outputs": [tensor("z", 1, 10)]},
]  # fmt: skip


@pytest.fixture
def engine(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps({"Layers": LAYERS, "Bindings": ["x", "z"]}))
    return path


def test_layers_know_the_nodes_they_were_made_of(engine):
    ((importer, found),) = detect(engine)
    assert (importer.name, found.confidence) == ("tensorrt", 2)
    graph = read_graph(engine)
    assert (graph.kind, graph.framework) == (GraphKind.DEVICE, Framework.TENSORRT)
    copy, fused, last = graph.ops
    assert copy.is_inserted
    assert fused.original_names == ("/conv1/Conv", "/relu1/Relu")
    assert last.original_names == ("fc",)  # without Metadata, by its name
    assert fused.takes == (TensorRef(copy.id, 0),)
    assert [each.outputs[0].dtype for each in graph.ops] == [
        DType.FLOAT16, DType.INT8, DType.FLOAT16]  # fmt: skip
    assert fused.attrs["Kernel"] == (3, 3)
    assert [(each.name, each.shape) for each in graph.inputs] == [("x", (None, 3, 8, 8))]
    assert graph.outputs == (TensorRef("fc", 0),)


def test_names_alone_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps({"Layers": ["conv1 + relu1", "fc"], "Bindings": ["x"]}))
    with pytest.raises(ImportFormatError, match="names alone") as refused:
        read_graph(path)
    assert "detailed" in (refused.value.hint or "")
