"""A device whose graph was not the one given: every op looks guilty, and the run says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.contract import RunData
from graphstore.model import Verdict

LAYERS = 6


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its golden dump and the dump of an 8-bit device."""
    folder = tmp_path_factory.mktemp("quantised")
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal((16, 16)).astype(np.float32) / 4 for _ in range(LAYERS)]
    nodes, name = [], "x"
    for n in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [name, f"w{n}"], [f"m{n}"], name=f"m{n}"))
        nodes.append(helper.make_node("Sigmoid", [f"m{n}"], [f"s{n}"], name=f"s{n}"))
        name = f"s{n}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16])],
        [numpy_helper.from_array(value, f"w{n}") for n, value in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    capture(CaptureRequest(folder / "model.onnx", folder / "golden", seed=1))
    capture(CaptureRequest(folder / "model.onnx", folder / "device", device=StandIn.INT8, seed=1))
    return folder


def compared(folder: Path, device: Path) -> RunData:
    model = folder / "model.onnx"
    return compare(CompareRequest(model, folder / "golden", device, folder / "device"))


def test_with_the_graph_of_the_device_there_is_nothing_to_say(quantised: Path) -> None:
    data = compared(quantised, quantised / "device" / "model.int8.onnx")

    assert data.run.verdict in (Verdict.WITHIN_ROUNDING, Verdict.CLEAN)
    assert not [note for note in data.run.warnings if "graph" in note]


def test_with_the_golden_graph_in_its_place_both_signs_are_told(quantised: Path) -> None:
    data = compared(quantised, quantised / "model.onnx")

    (files,) = (note for note in data.run.warnings if "belong to no op" in note)
    assert files.endswith("is --device the graph that was run?")
    assert data.run.verdict is Verdict.UNDECIDED
    assert data.run.analysis.doubt.startswith("6 of 12 tensors are over what fp32")
    assert data.origins == ()
    assert len(data.suspects) == 6
