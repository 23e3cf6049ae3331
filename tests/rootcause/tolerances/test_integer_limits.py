"""A limit of 6 is 254 steps of 6/255 on a device that clips integers: a step off, and no fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture

STEP = np.float32(6 / 255)
X = np.random.default_rng(3).uniform(-2, 9, (16, 32)).astype(np.float32)
QUANTISE = (("QuantizeLinear", "a", "q"), ("DequantizeLinear", "q", "d"))


def model(path: Path, *, quantised: bool) -> Path:
    """A Clip to 0..6 of sizes, and a product; on the device it is quantised before."""
    constants = {"low": np.float32(0), "high": np.float32(6), "step": STEP, "zero": np.uint8(0)}
    constants["w"] = np.random.default_rng(4).standard_normal((32, 8)).astype(np.float32)
    nodes = [helper.make_node(kind, [of, "step", "zero"], [to], to) for kind, of, to in QUANTISE]
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "a"),
        *(nodes if quantised else ()),
        helper.make_node("Clip", ["d" if quantised else "a", "low", "high"], ["c"], "c"),
        helper.make_node("MatMul", ["c", "w"], ["y"], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(X.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.mark.parametrize(("steps", "guilty"), [(0, []), (1, []), (2, ["c"])])
def test_a_limit_may_be_one_step_off(tmp_path: Path, steps: int, guilty: list[str]) -> None:
    sides = [
        model(tmp_path / f"{name}.onnx", quantised=name == "device")
        for name in ("golden", "device")
    ]
    np.save(tmp_path / "x.npy", X)
    for side in sides:
        capture(CaptureRequest(side, tmp_path / side.stem, {"x": tmp_path / "x.npy"}))
    dumped = {path.name.split(".")[0]: path for path in (tmp_path / "device").glob("*.npy")}
    clipped = np.minimum(np.load(dumped["c"]), np.float32(255 - steps) * STEP)
    np.save(dumped["c"], clipped)
    np.save(dumped["y"], clipped @ numpy_helper.to_array(onnx.load(sides[1]).graph.initializer[4]))

    found = compare(CompareRequest(sides[0], tmp_path / "golden", sides[1], tmp_path / "device"))

    assert [each.op for each in found.origins] == guilty
    assert not found.suspects
