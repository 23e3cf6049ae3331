"""What a quantised model makes of its own values is no fault, however far it is from golden's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.model import Verdict

RNG = np.random.default_rng(5)
ENERGIES = (10 ** RNG.uniform(-3, 1, (8, 32))).astype(np.float32)
QUANTISED = "quantised"
"""Stands for the nodes that quantise the tensor before."""


def model(path: Path, ops, constants, *, quantised: bool) -> Path:
    """A chain of (type, operands, output) on x, with its quantisers or without."""
    nodes, held = [], {}
    for kind, taken, made in ops:
        read = [held.get(name, name) for name in taken]
        if kind != QUANTISED:
            nodes.append(helper.make_node(kind, read, [made], made))
        elif quantised:
            q, d, step = f"{made}_q", f"{made}_d", f"{made}_step"
            nodes.append(helper.make_node("QuantizeLinear", [read[0], step, "zero"], [q], q))
            nodes.append(helper.make_node("DequantizeLinear", [q, step, "zero"], [d], d))
            held[taken[0]] = d
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {"zero": np.int8(0), **constants}.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def compared(folder: Path, ops, constants, computed=None) -> RunData:
    """A model in float32, and quantised as a device runs it; *computed* is the device's y."""
    np.save(folder / "x.npy", ENERGIES)
    sides = [
        model(folder / f"{name}.onnx", ops, constants, quantised=name == "device")
        for name in ("golden", "device")
    ]
    for side in sides:
        capture(CaptureRequest(side, folder / side.stem, {"x": folder / "x.npy"}))
    if computed is not None:
        (dumped,) = (folder / "device").glob("y.*.npy")
        np.save(dumped, computed)
    return compare(CompareRequest(sides[0], folder / "golden", sides[1], folder / "device"))


LOGARITHM = [
    ("Abs", ["x"], "energy"),
    (QUANTISED, ["energy"], "e"),
    ("Log", ["energy"], "log"),
]
FLOORED = [("Max", ["log", "least"], "heard"), ("Mul", ["heard", "half"], "y")]
CONSTANTS = {"e_step": np.float32(10 / 127), "least": np.float32(-4), "half": np.float32(0.5)}


def test_the_logarithm_of_what_a_step_made_zero_is_no_origin_where_it_is_healed(
    tmp_path: Path,
) -> None:
    data = compared(tmp_path, [*LOGARITHM, *FLOORED], CONSTANTS)
    assert any(each.over for each in data.comparisons if each.op == "y")
    assert data.run.verdict is Verdict.WITHIN_ROUNDING
    assert [each.op for each in data.suspects] == ["log"]


def test_it_is_where_it_comes_out(tmp_path: Path) -> None:
    data = compared(tmp_path, [*LOGARITHM, ("Mul", ["log", "half"], "y")], CONSTANTS)
    assert [each.op for each in data.origins] == ["log"]


@pytest.mark.parametrize("power", [1, 3])
def test_constants_are_computed_from_what_the_device_quantised(tmp_path: Path, power: int) -> None:
    turn = np.linspace(0, 40, 32, dtype=np.float32)
    constants = {"turn": turn, "one": np.float32(1), "t_step": np.float32(40 / 127)}
    chain = [
        ("Mul", ["turn", "one"], "t"),
        (QUANTISED, ["t"], "t"),
        ("Cos", ["t"], "wave"),
        ("Pow", ["wave", "power"], "window"),
        ("Mul", ["x", "window"], "y"),
    ]
    data = compared(tmp_path, chain, {**constants, "power": np.float32(power)})
    assert data.run.verdict is Verdict.WITHIN_ROUNDING
    assert not data.suspects


@pytest.mark.parametrize(("gain", "verdict"), [(1, "within_rounding"), (1.05, "diverged")])
def test_a_dequantiser_is_rounded_at_the_size_of_its_zero_point(
    tmp_path: Path, gain: float, verdict: str
) -> None:
    step, zero = np.float32(100.37), np.int8(-118)
    chain = [("Neg", ["x"], "a"), (QUANTISED, ["a"], "a"), ("Sub", ["x", "a"], "y")]
    # Every value of a is its zero point, so nothing is left of it but what its term lost.
    lost = float(zero) * float(step) - float(np.float32(float(zero) * float(step)))
    constants = {"a_step": step, "zero": zero}
    data = compared(tmp_path, chain, constants, (gain * (ENERGIES - lost)).astype(np.float32))
    assert lost != 0
    assert data.run.verdict.value == verdict
