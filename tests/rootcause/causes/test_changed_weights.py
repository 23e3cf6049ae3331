"""Which weight, which channel, by how much: told by runs of the op itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.options import DEFAULT_OPTIONS
from graphstore.model import Finding

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
CHANNELS = 12
ROWS = {"rows": np.array([3, 0, -1, 3, 2, 1])}


def right() -> Weights:
    rng = np.random.default_rng(3)
    return {
        "conv_w": rng.standard_normal((CHANNELS, 4, 3, 3)).astype(np.float32),
        "conv_b": rng.uniform(0.5, 1.0, CHANNELS).astype(np.float32),
        "each_w": rng.standard_normal((CHANNELS, 1, 3, 3)).astype(np.float32),
        "scale": rng.uniform(0.5, 2.0, CHANNELS).astype(np.float32),
        "shift": rng.uniform(-1.0, 1.0, CHANNELS).astype(np.float32),
        "mean": rng.uniform(-1.0, 1.0, CHANNELS).astype(np.float32),
        "variance": rng.uniform(0.01, 4.0, CHANNELS).astype(np.float32),
        "gain": rng.uniform(0.5, 2.0, (1, CHANNELS, 1, 1)).astype(np.float32),
        "power": np.float32(1.7),
        "table": rng.standard_normal((6, 9)).astype(np.float32),
        "matrix": rng.standard_normal((10, 10)).astype(np.float32),
    }


def model(path: Path, weights: Weights) -> Path:
    """A convolution, one channel by channel, a normalisation, a gain, a power and a product."""
    norm = ["each", "scale", "shift", "mean", "variance"]
    nodes = [
        helper.make_node("Conv", ["x", "conv_w", "conv_b"], ["conv"], name="conv"),
        helper.make_node("Conv", ["conv", "each_w"], ["each"], name="each", group=CHANNELS),
        helper.make_node("BatchNormalization", norm, ["norm"], name="norm", epsilon=1e-3),
        helper.make_node("Mul", ["norm", "gain"], ["mul"], name="mul"),
        helper.make_node("Abs", ["mul"], ["abs"], name="abs"),
        helper.make_node("Pow", ["abs", "power"], ["pow"], name="pow"),
        helper.make_node("Gather", ["table", "rows"], ["read"], name="read"),
        helper.make_node("MatMul", ["mul", "matrix"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 14, 14])],
        [onnx.ValueInfoProto(name=name) for name in ("y", "pow", "read")],
        [numpy_helper.from_array(value, name) for name, value in {**weights, **ROWS}.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def cause(folder: Path, change: Callable[[Weights], None], device: StandIn) -> Finding:
    weights = right()
    change(weights)
    golden = model(folder / "golden.onnx", right())
    faulty = model(folder / "faulty.onnx", weights)
    capture(CaptureRequest(golden, folder / "golden", seed=5))
    capture(CaptureRequest(faulty, folder / "device", device=device, seed=5))
    sides = golden, folder / "golden", golden, folder / "device"
    known = KNOWN if device is StandIn.FP32 else DEFAULT_OPTIONS
    data = compare(CompareRequest(*sides, root_cause=known))
    return next(each for each in data.findings if each.op == data.origins[0].op)


def put(name: str, place: Any, value: Any) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[name][place] = value

    return change


def times(name: str, place: Any, gain: float) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[name][place] *= np.float32(gain)

    return change


def plus(name: str, place: Any, more: float) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[name][place] += np.float32(more)

    return change


def swapped(name: str) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[name][[2, 7]] = weights[name][[7, 2]]

    return change


def two(weights: Weights) -> None:
    weights["conv_w"][4, 1, 0, 0] = 7.0
    weights["conv_w"][4, 3, 2, 1] = -6.0


def power(weights: Weights) -> None:
    weights["power"] = np.float32(1.9)


def more_variance(weights: Weights) -> None:
    weights["variance"] += np.float32(0.05)


OP = "the device has exactly what {} gives with "
FAULTS: dict[str, tuple[Callable[[Weights], None], str, str]] = {
    "one weight": (put("conv_w", (4, 1, 2, 0), 9.0), "wrong_weights", "conv_w[4, 1, 2, 0] 9"),
    "two weights": (two, "wrong_weights", "conv_w[4, 1, 0, 0] 7"),
    "of a product": (put("matrix", (3, 6), 9.0), "wrong_weights", "matrix[3, 6] 9"),
    "of one channel": (put("each_w", (5, 0, 1, 1), 9.0), "wrong_weights", "each_w[5, 0, 1, 1] 9"),
    "a channel's weights": (
        times("conv_w", 3, 1.5),
        "wrong_weights",
        "the weights of channel 3 1.5",
    ),
    "a channel of one weight": (
        put("conv_w", 3, -0.25),
        "wrong_weights",
        "all weights of channel 3 in conv_w -0.25",
    ),
    "a zero point of weights": (
        plus("conv_w", 3, 0.125),
        "wrong_weights",
        "0.125 added to the weights of channel 3 in conv_w",
    ),
    "weights swapped": (
        swapped("each_w"),
        "wrong_weights",
        "the weights of channel 2 for those of channel 7",
    ),
    "an input lost": (
        times("conv_w", (slice(None), 1), 0.0),
        "wrong_weights",
        "index 1 of axis 1 of conv_w left out",
    ),
    "bias": (put("conv_b", 6, 2.5), "wrong_constant", "conv_b[6] 2.5"),
    "scale": (times("scale", 6, 1.5), "wrong_constant", "scale[6] "),
    "variance": (times("variance", 6, 4.0), "wrong_constant", "(or variance[6] "),
    "gain": (times("gain", (0, 6), 1.5), "wrong_constant", "gain[6] "),
    "a row": (times("table", 3, 0.0), "wrong_weights", "row 3 of table all zero"),
    "another row": (
        put("table", 2, right()["table"][5]),
        "wrong_weights",
        "row 5 of table for row 2",
    ),
    "of a row": (put("table", (3, 4), 9.0), "wrong_weights", "table[3, 4] 9"),
    "exponent": (power, "wrong_constant", "power 1.9"),
    "epsilon": (more_variance, "wrong_epsilon", "with epsilon 0.05"),
}


@pytest.mark.parametrize("device", [StandIn.FP32, StandIn.FP16])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_place_and_the_amount_are_told(tmp_path, fault, device):
    change, label, words = fault
    found = cause(tmp_path, change, device)
    assert found.label == label
    exact = words if device is StandIn.FP32 else words.strip("0123456789.")
    assert exact in found.sentence
    assert "has exactly what" in found.sentence
    assert found.confidence >= 0.9
