"""A device that computes in float16, but keeps some ops in float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnxruntime.transformers.float16 import convert_float_to_float16

from divergraph.capture import CaptureRequest, capture
from divergraph.pipeline import compare
from graphstore.model import ErrorSplit, TensorIO

KEPT = ["conv2", "relu2", "conv3", "relu3"]


@pytest.fixture
def mixed(sides):
    """Runs the network with KEPT in float32; *gain* is on the weights of conv3."""
    made = sides()

    def run(gain: float):
        model = onnx.load_model(str(made.folder / "golden.onnx"))
        (weight,) = (each for each in model.graph.initializer if each.name == "w3")
        louder = onnx.numpy_helper.to_array(weight) * np.float32(gain)
        weight.CopyFrom(onnx.numpy_helper.from_array(louder, "w3"))
        half = convert_float_to_float16(model, keep_io_types=True, node_block_list=KEPT)
        path = made.folder / "mixed.onnx"
        onnx.save_model(half, str(path))
        inputs = {"x": made.folder / "x.npy"}
        capture(CaptureRequest(path, made.folder / "mixed_run", inputs))
        return replace(made.request, device=path, device_dump=made.folder / "mixed_run")

    return run


def floors(data) -> dict[str, ErrorSplit]:
    """The split of each op's output."""
    return {
        item.op: item.split
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.split is not None
    }


def test_ops_kept_in_float32_have_floors_of_float32(mixed):
    data = compare(mixed(1.0))
    assert not data.origins
    assert not data.suspects
    assert data.run.analysis["precision"] == "fp16"
    by_op = floors(data)
    assert by_op["conv3"].floor < 1e-5
    assert by_op["conv1"].floor > 1e-4
    assert data.run.analysis["kept_in_fp32"] > 1


def test_a_fault_there_is_found_that_float16_would_hide(mixed):
    data = compare(mixed(1.0002))
    assert [origin.op for origin in data.origins] == ["conv3"]


def test_a_graph_that_tells_no_types_as_dumped_is_not_believed(mixed):
    """The golden graph for the device's: all float32, whatever the dump holds."""
    request = mixed(1.0002)
    data = compare(replace(request, device=request.golden))
    assert not data.origins
    assert floors(data)["conv3"].floor > 1e-4
