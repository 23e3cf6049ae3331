"""A golden model quantises, and the device computes between its quantisers in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture

RNG = np.random.default_rng(5)
WIDTH = 16
STEPS = {"s0": 3.0 / 127, "s1": 4.0 / 127, "s2": 5.0 / 127, "sw": 1.0 / 127}
CONSTANTS = {name: np.float32(step) for name, step in STEPS.items()} | {
    "z": np.int8(0),
    "w1": RNG.integers(-60, 61, (WIDTH, WIDTH)).astype(np.int8),
    "w2": RNG.integers(-60, 61, (WIDTH, WIDTH)).astype(np.int8),
}


def through(op: str, inputs: str, output: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name or output)


ENDS = [
    through("DequantizeLinear", "q1 s1 z", "d1", "first"),
    through("DequantizeLinear", "q2 s2 z", "y", "second"),
]
GOLDEN = [
    through("QuantizeLinear", "x s0 z", "q0"),
    through("DequantizeLinear", "q0 s0 z", "d0"),
    through("DequantizeLinear", "w1 sw z", "w1d"),
    through("MatMul", "d0 w1d", "m1"),
    through("QuantizeLinear", "m1 s1 z", "q1"),
    ENDS[0],
    through("DequantizeLinear", "w2 sw z", "w2d"),
    through("MatMul", "d1 w2d", "m2"),
    through("QuantizeLinear", "m2 s2 z", "q2"),
    ENDS[1],
]
DEVICE = [
    through("QuantizeLinear", "x s0 z", "q0"),
    through("QLinearMatMul", "q0 s0 z w1 sw z s1 z", "q1"),
    ENDS[0],
    through("QLinearMatMul", "q1 s1 z w2 sw z s2 z", "q2"),
    ENDS[1],
]


def saved(path: Path, nodes: list[onnx.NodeProto]) -> Path:
    x, *ends = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, WIDTH])
        for name in ("x", "d1", "y")
    )
    weights = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in CONSTANTS.items()
    ]
    graph = helper.make_graph(nodes, "net", [x], ends, weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.mark.parametrize("gain", [1.0, 1.03], ids=["healthy", "three per cent too large"])
def test_products_in_integers_are_judged_to_the_last_step(tmp_path: Path, gain: float) -> None:
    sides = saved(tmp_path / "golden.onnx", GOLDEN), saved(tmp_path / "device.onnx", DEVICE)
    np.save(tmp_path / "x.npy", RNG.standard_normal((8, WIDTH)).astype(np.float32))
    for side in sides:
        capture(CaptureRequest(side, tmp_path / side.stem, inputs={"x": tmp_path / "x.npy"}))
    for dump in (tmp_path / "device").glob("*.npy"):
        name = dump.name.partition(".")[0]
        if name in ("q0", "q1", "q2"):
            dump.unlink()
        elif name == "first":
            np.save(dump, np.load(dump) * np.float32(gain))
    data = compare(CompareRequest(sides[0], tmp_path / "golden", sides[1], tmp_path / "device"))
    assert [origin.op for origin in data.origins] == ([] if gain == 1.0 else ["first"])
