"""Random numbers the device draws anew, or not at all: no op behind them is to blame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture

RNG = np.random.default_rng(2)
X = RNG.standard_normal((6, 40)).astype(np.float32)
W = (RNG.standard_normal((40, 40)) / 6).astype(np.float32)


def saved(path: Path, draw: list[onnx.NodeProto], last: str) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "a"),
        *draw,
        helper.make_node("MatMul", [last, "w"], ["m"], "m"),
        helper.make_node("Tanh", ["m"], ["y"], "y"),
    ]
    constants = {"w": W, "half": np.array(0.5, np.float32), "yes": np.array(True)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 40])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def noise(seed: float) -> list[onnx.NodeProto]:
    return [
        helper.make_node("RandomNormalLike", ["a"], ["noise"], "noise", seed=seed, scale=0.1),
        helper.make_node("Add", ["a", "noise"], ["louder"], "louder"),
    ]


def dropout(seed: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Dropout", ["a", "half", "yes"], ["kept"], "kept", seed=seed)]


@pytest.mark.parametrize(
    ("golden", "device", "last", "other", "lost"),
    [
        (noise(1.0), noise(2.0), "louder", "louder", "noise"),
        (dropout(1), dropout(2), "kept", "kept", "kept"),
        (dropout(1), [], "kept", "a", ""),
    ],
    ids=["noise not dumped", "dropout not dumped", "dropout removed"],
)
def test_the_op_behind_is_not_blamed(tmp_path: Path, golden, device, last, other, lost) -> None:
    sides = saved(tmp_path / "g.onnx", golden, last), saved(tmp_path / "d.onnx", device, other)
    np.save(tmp_path / "x.npy", X)
    for side in sides:
        capture(CaptureRequest(side, tmp_path / side.stem, inputs={"x": tmp_path / "x.npy"}))
    for each in (tmp_path / "d").glob(f"{lost}.*") if lost else ():
        each.unlink()
    data = compare(CompareRequest(sides[0], tmp_path / "g", sides[1], tmp_path / "d"))
    assert not data.origins
    assert any("draws random numbers" in each for each in data.run.warnings)


def test_what_takes_golden_numbers_rightly_is_judged_as_ever(tmp_path: Path) -> None:
    """A device that was given the golden draw, and whose product is wrong."""
    path = saved(tmp_path / "g.onnx", noise(1.0), "louder")
    np.save(tmp_path / "x.npy", X)
    for side in ("g", "d"):
        capture(CaptureRequest(path, tmp_path / side, inputs={"x": tmp_path / "x.npy"}))
    (wrong,) = (tmp_path / "d").glob("m.*")
    np.save(wrong, np.load(wrong) * np.float32(1.01))
    (drawn,) = (tmp_path / "d").glob("noise.*")
    drawn.unlink()
    data = compare(CompareRequest(path, tmp_path / "g", path, tmp_path / "d"))
    assert [origin.op for origin in data.origins] == ["m"]  # y read the right ones
