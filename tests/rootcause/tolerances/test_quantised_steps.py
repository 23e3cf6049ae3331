"""Devices that quantise as their graphs say: errors far below what quantising costs are seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.execute.stand_ins import make_stand_in
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.devices.quantisers import Quantiser
from divergraph.values.zero_points import with_zero_of
from graphstore.contract import RunData
from graphstore.model import Effect

RNG = np.random.default_rng(5)
LAYERS = 4
X = RNG.standard_normal((8, 32)).astype(np.float32)
WEIGHTS = {f"w{k}": (RNG.standard_normal((32, 32)) / 6).astype(np.float32) for k in range(LAYERS)}


def saved(path: Path, nodes, constants) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 32])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def golden(path: Path) -> Path:
    """Layers with a way around the last: its input is read twice."""
    nodes, last = [], "x"
    for k in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [last, f"w{k}"], [f"m{k}"], f"m{k}"))
        last = f"r{k}"
        nodes.append(helper.make_node("Relu", [f"m{k}"], [last], last))
    nodes.append(helper.make_node("Add", [last, f"r{LAYERS - 2}"], ["y"], "y"))
    return saved(path, nodes, WEIGHTS)


def device(path: Path) -> Path:
    """In 8 bits in front of each product, its weights as well; all else in float32."""
    constants = WEIGHTS | STEPS | {"zero": np.int8(0)}
    nodes, last = [], "x"
    for k in range(LAYERS):
        for source in (last, f"w{k}"):
            scale = f"{source}_step"
            made = [f"{source}_q", f"{source}_d"]
            nodes.append(
                helper.make_node("QuantizeLinear", [source, scale, "zero"], made[:1], made[0])
            )
            nodes.append(
                helper.make_node("DequantizeLinear", [made[0], scale, "zero"], made[1:], made[1])
            )
        nodes.append(helper.make_node("MatMul", [f"{last}_d", f"w{k}_d"], [f"m{k}"], f"m{k}"))
        last = f"r{k}"
        nodes.append(helper.make_node("Relu", [f"m{k}"], [last], last))
    nodes.append(helper.make_node("Add", [last, f"r{LAYERS - 2}"], ["y"], "y"))
    return saved(path, nodes, constants)


STEPS = {f"{name}_step": np.float32(np.abs(w).max() / 127) for name, w in WEIGHTS.items()}
STEPS |= {f"{name}_step": np.float32(4 / 127) for name in ("x", "r0", "r1", "r2", "r3")}


def dumped(change, cut: float) -> dict[str, np.ndarray]:
    """What the device makes; *change* of each product's values, quantisers round down by *cut*."""
    values = {"x": X, **WEIGHTS}
    last = "x"
    for k in range(LAYERS):
        for source in (last, f"w{k}"):
            step = STEPS[f"{source}_step"]
            less = 0.0 if source in WEIGHTS else np.float32(cut)
            steps = np.clip(np.rint(values[source] / step - less), -128, 127)
            values[f"{source}_q"] = steps.astype(np.int8)
            values[f"{source}_d"] = steps.astype(np.float32) * step
        values[f"m{k}"] = change(f"m{k}", values[f"{last}_d"] @ values[f"w{k}_d"])
        last = f"r{k}"
        values[last] = np.maximum(values[f"m{k}"], 0)
    return values | {"y": values[last] + values[f"r{LAYERS - 2}"]}


def compared(folder: Path, change=lambda _name, value: value, cut: float = 0.0, hidden=()):
    """The run of a device that dumps all but *hidden*."""
    sides = golden(folder / "golden.onnx"), device(folder / "device.onnx")
    np.save(folder / "x.npy", X)
    capture(CaptureRequest(sides[0], folder / "golden", inputs={"x": folder / "x.npy"}))
    (folder / "npu").mkdir()
    made = {node.name for node in onnx.load(str(sides[1])).graph.node}
    values = dumped(change, cut)
    for name in made - set(hidden):
        np.save(folder / "npu" / f"{name}.0.1.npy", values[name])
    return compare(CompareRequest(sides[0], folder / "golden", sides[1], folder / "npu"))


FUSED = ("r2_q", "r2_d", "m3", "r3", "m1", "r1_q", "w1_d", "w3_d")
"""Without these a group reads a value quantised and as it is, too."""


def louder(name: str, value: np.ndarray) -> np.ndarray:
    return value * np.float32(1.003) if name == "m1" else value


@pytest.mark.parametrize("hidden", [(), FUSED], ids=["all dumped", "fused"])
def test_a_healthy_device_is_not_to_blame(tmp_path: Path, hidden) -> None:
    data = compared(tmp_path, hidden=hidden)
    assert not data.origins
    assert not data.suspects


@pytest.mark.parametrize(("hidden", "op"), [((), "m1"), (FUSED, "r1")], ids=["all dumped", "fused"])
def test_a_gain_far_below_a_step_is_seen(tmp_path: Path, hidden, op: str) -> None:
    data = compared(tmp_path, louder, hidden=hidden)
    assert [origin.op for origin in data.origins] == [op]
    (kept,) = (each for each in data.run.analysis.reckonings if each.op == op)
    (known,) = (each for each in kept.adjustments if each.tolerance == "known scales")
    assert known.effect is Effect.NARROW
    assert known.after < known.before / 10
    assert kept.suspicion == pytest.approx(known.numbers["over_exact"])


def test_a_device_that_cuts_where_its_graph_rounds_is_no_suspect(tmp_path: Path) -> None:
    data = compared(tmp_path, cut=0.49)
    assert not data.origins


def test_a_lost_product_is_found_on_such_a_device_as_well(tmp_path: Path) -> None:
    def lost(name: str, value: np.ndarray) -> np.ndarray:
        return np.zeros_like(value) if name == "m2" else value

    assert compared(tmp_path, lost, cut=0.49).origins[0].op == "m2"


def test_a_quantised_model_and_what_its_runtime_makes_of_it(tmp_path: Path, sides) -> None:
    """Other signs of 8 bits, and dequantisers that were doubled: the same all the same."""
    made = sides()
    quantised, fused = tmp_path / "quantised.onnx", tmp_path / "fused.onnx"
    feeds = {"x": np.load(tmp_path / "x.npy")}
    make_stand_in(made.folder / "golden.onnx", StandIn.INT8, quantised, feeds)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(fused)
    onnxruntime.InferenceSession(str(quantised), options, providers=["CPUExecutionProvider"])
    for side in (quantised, fused):
        inputs = {"x": tmp_path / "x.npy"}
        capture(CaptureRequest(side, tmp_path / f"run_{side.stem}", inputs))
    data = compare(
        CompareRequest(quantised, tmp_path / "run_quantised", fused, tmp_path / "run_fused")
    )
    assert data.run.counts.compared > 10
    assert not data.origins
    assert not data.suspects


def test_bytes_called_unsigned_and_a_moved_zero_are_the_same_numbers() -> None:
    golden = np.array([-128, -3, 0, 7, 127], np.int8)
    for dumped_as in (golden.view(np.uint8), (golden.astype(np.int16) + 128).astype(np.uint8)):
        assert np.array_equal(with_zero_of(dumped_as, golden), golden)


def test_a_bias_in_32_bits_has_the_last_place_of_its_own_range() -> None:
    ends = np.iinfo(np.int32)
    bias = Quantiser(np.array([2.0**-14]), np.zeros(1), ends.min, ends.max)
    value = np.linspace(-0.9, 0.9, 41, dtype=np.float32)
    assert np.array_equal(bias(value, 8.0), bias(value))
    byte = Quantiser(np.array([2.0**-7]), np.zeros(1), -128, 127)
    tie = np.float32([-1, 10.5 * 2.0**-7, 0.9])
    assert set(np.flatnonzero(byte(tie, 8.0) != byte(tie, -8.0))) == {1}


EPSILON, FACTOR = 1e-3, np.linspace(0.51, 1.5, 32, dtype=np.float32)
FACTOR_STEP = np.float32(1.5 / 127)


def norms(path: Path, *, quantised: bool) -> Path:
    """Four normalisations one behind the other, with a quantiser in front of each."""

    def rounded(read: str, step: str, name: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("QuantizeLinear", [read, step, "zero"], [f"q{name}"], f"q{name}"),
            helper.make_node(
                "DequantizeLinear", [f"q{name}", step, "zero"], [f"d{name}"], f"d{name}"
            ),
        ]

    nodes, last, factor = [], "x", "g"
    if quantised:
        nodes, factor = rounded("g", "g_step", "g"), "dg"
    for k in range(LAYERS):
        if quantised:
            nodes += rounded(last, "step", str(k))
            last = f"d{k}"
        made = "y" if k == LAYERS - 1 else f"n{k}"
        nodes.append(
            helper.make_node("LayerNormalization", [last, factor], [made], f"n{k}", epsilon=EPSILON)
        )
        last = made
    steps = {"step": np.float32(5 / 127), "g_step": FACTOR_STEP, "zero": np.int8(0)}
    return saved(path, nodes, {"g": FACTOR, **steps})


def normed(value: np.ndarray) -> np.ndarray:
    apart = value - value.mean(-1, keepdims=True)
    return (
        apart
        / np.sqrt(np.mean(apart**2, -1, keepdims=True) + np.float32(EPSILON))
        * (np.rint(FACTOR / FACTOR_STEP) * FACTOR_STEP)
    )


def of_norms(folder: Path, third) -> RunData:
    """A run whose third normalisation is *third* of integers and their step."""
    sides = norms(folder / "a.onnx", quantised=False), norms(folder / "b.onnx", quantised=True)
    np.save(folder / "x.npy", X)
    capture(CaptureRequest(sides[0], folder / "golden", inputs={"x": folder / "x.npy"}))
    (folder / "npu").mkdir()
    value, step = X, np.float32(5 / 127)
    for k in range(LAYERS):
        steps = np.clip(np.rint(value / step), -128, 127)
        value = third(steps, step) if k == 2 else normed(steps * step)
        for name, made in ((f"q{k}", steps.astype(np.int8)), (f"d{k}", steps * step)):
            np.save(folder / "npu" / f"{name}.0.1.npy", made)
        np.save(folder / "npu" / f"n{k}.0.1.npy", value)
    return compare(CompareRequest(sides[0], folder / "golden", sides[1], folder / "npu"))


def test_a_scale_may_be_moved_behind_what_does_not_change_with_it(tmp_path: Path) -> None:
    data = of_norms(tmp_path, lambda steps, _step: normed(steps))
    assert not data.origins
    assert not data.suspects


@pytest.mark.parametrize(
    "third",
    [
        lambda steps, _step: normed(steps) * np.float32(1.003),
        lambda steps, step: normed(steps * step) / step,
    ],
    ids=["a gain on top", "a scale not taken back"],
)
def test_what_is_wrong_besides_is_no_moved_scale(tmp_path: Path, third) -> None:
    assert [origin.op for origin in of_norms(tmp_path, third).origins] == ["n2"]
