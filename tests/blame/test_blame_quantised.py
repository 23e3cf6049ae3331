"""Blame of devices that quantise: what is said to be left is what running them anew leaves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.blame.attribution import Blame
from divergraph.blame.keep_lists import block_list_lines
from divergraph.blame.run import BlameChoice, blame_run
from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.execute.contract import QuantisedRead, Quantising
from divergraph.execute.onnx.executor import OnnxRuntimeExecutor
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.rootcause.options import RootCauseOptions
from graphstore.contract import RunData
from graphstore.errors import ExecutionError
from importers.onnx_model.importer import OnnxImporter

Array = np.ndarray[Any, Any]
LAYERS = 8
WIDE = 24


def write(
    path: Path,
    quantised: frozenset[int],
    scales: dict[str, float],
    faulty: int | None = None,
    opset: int = 17,
) -> None:
    """Layers of MatMul and Tanh; those *quantised* read through 8 bits, a *faulty* one has lost
    a quarter of its weights."""
    draw = np.random.default_rng(0)
    nodes, weights = [], []
    for layer in range(LAYERS):
        x, w = f"x{layer}", f"w{layer}"
        gain = 2.0 / np.sqrt(WIDE)
        values = draw.normal(0, gain, (WIDE, WIDE)).astype(np.float32)
        if layer == faulty:
            values[:, : WIDE // 4] = 0
        weights.append(numpy_helper.from_array(values, w))
        read = {x: x, w: w}
        for name in (x, w) if layer in quantised else ():
            step = scales[x] if name == x else float(np.abs(values).max()) / 127
            weights.append(numpy_helper.from_array(np.array(step, np.float32), f"{name}_scale"))
            weights.append(numpy_helper.from_array(np.array(0, np.int8), f"{name}_zero"))
            sides = [f"{name}_scale", f"{name}_zero"]
            q, read[name] = f"{name}_q", f"{name}_dq"
            nodes.append(helper.make_node("QuantizeLinear", [name, *sides], [q], q))
            nodes.append(helper.make_node("DequantizeLinear", [q, *sides], [read[name]], f"{q}d"))
        nodes.append(helper.make_node("MatMul", [read[x], read[w]], [f"m{layer}"], f"mul{layer}"))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"x{layer + 1}"], f"tanh{layer}"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [30, WIDE])],
        [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, [30, WIDE])],
        weights,
    )
    versions = [helper.make_opsetid("", opset)]
    onnx.save_model(helper.make_model(graph, opset_imports=versions, ir_version=8), str(path))


@pytest.fixture
def x() -> Array:
    return np.random.default_rng(1).normal(0, 1, (30, WIDE)).astype(np.float32)


@pytest.fixture
def scales(tmp_path: Path, x: Array) -> dict[str, float]:
    write(tmp_path / "golden.onnx", frozenset(), {})
    executor = OnnxRuntimeExecutor(tmp_path / "golden.onnx", read(tmp_path / "golden.onnx"))
    values = {"x0": x, **dict(executor.run({"x0": x}))}
    return {name: float(np.abs(value).max()) / 40 for name, value in values.items()}


def read(path: Path) -> Any:
    return OnnxImporter().read(path)


def ran(path: Path, x: Array) -> Array:
    """What the model gives as it is written: fused kernels of 8 bits round otherwise, and not the
    same way on every processor."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x0": x})[0])


def compared(folder: Path, x: Array, hidden: str = "nothing") -> RunData:
    dumps = {}
    for side in ("golden", "device"):
        np.save(folder / "x0.npy", x)
        dumps[side] = folder / f"{side}_dump"
        given = {"x0": folder / "x0.npy"}
        capture(CaptureRequest(folder / f"{side}.onnx", dumps[side], given))
    for path in dumps["device"].glob(f"*{hidden}*"):
        path.unlink()
    return compare(
        CompareRequest(
            folder / "golden.onnx", dumps["golden"], folder / "device.onnx", dumps["device"]
        )
    )


def blamed(data: RunData, keep: int) -> Blame:
    return blame_run(data, RootCauseOptions(), BlameChoice(keep), NO_PROGRESS)


def test_what_is_left_is_that_of_the_device_run_again(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    write(tmp_path / "device.onnx", frozenset(range(LAYERS)), scales)
    found = blamed(compared(tmp_path, x), keep=3)
    assert found.imitated
    # What is quantised is the fault of the op that reads it: the quantisers are in no list.
    assert all(each.op.startswith("mul") for each in found.keep)
    golden = ran(tmp_path / "golden.onnx", x)
    whole = np.linalg.norm(ran(tmp_path / "device.onnx", x) - golden)
    for count in (1, 2, 3):
        kept = {int(each.op.removeprefix("mul")) for each in found.keep[:count]}
        write(tmp_path / "mixed.onnx", frozenset(range(LAYERS)) - kept, scales)
        left = np.linalg.norm(ran(tmp_path / "mixed.onnx", x) - golden) / whole
        assert found.keep[count - 1].left == pytest.approx(left, rel=1e-3)
        assert found.keep[count - 1].anew == pytest.approx(left, rel=0.5)


def test_a_fault_stays_as_it_was_until_its_op_is_kept(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    layers = frozenset(range(LAYERS))
    write(tmp_path / "device.onnx", layers, scales, faulty=5)
    found = blamed(compared(tmp_path, x), keep=2)
    assert found.imitated
    assert found.keep[0].op == "mul5"
    golden = ran(tmp_path / "golden.onnx", x)
    write(tmp_path / "mixed.onnx", layers - {5}, scales)
    mixed = np.linalg.norm(ran(tmp_path / "mixed.onnx", x) - golden)
    whole = np.linalg.norm(ran(tmp_path / "device.onnx", x) - golden)
    assert found.keep[0].left == pytest.approx(mixed / whole, rel=1e-3)


@pytest.mark.slow
def test_of_ops_not_dumped_one_by_one_all_are_listed(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    write(tmp_path / "device.onnx", frozenset(range(LAYERS)), scales)
    data = compared(tmp_path, x, hidden="mul")
    found = blamed(data, keep=2)
    listed = block_list_lines(data, found.keep)
    layers = sorted({each.op.removeprefix("tanh") for each in found.keep})
    assert sorted(listed) == [f"{kind}{each}" for kind in ("mul", "tanh") for each in layers]


@pytest.mark.slow
def test_errors_that_memory_does_not_hold_are_named(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    write(tmp_path / "device.onnx", frozenset(range(LAYERS)), scales)
    little = RootCauseOptions(memory=3 * x.nbytes)
    found = blame_run(compared(tmp_path, x), little, BlameChoice(1), NO_PROGRESS)
    assert len(found.shares) + len(found.left_out) == LAYERS
    assert found.left_out


@pytest.mark.slow
def test_why_a_quantising_device_is_not_imitated_is_said(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    write(tmp_path / "device.onnx", frozenset(range(LAYERS)), scales)
    assert blamed(compared(tmp_path, x), keep=1).not_imitated == ""
    shutil.rmtree(tmp_path / "golden_dump")
    shutil.rmtree(tmp_path / "device_dump")
    write(tmp_path / "golden.onnx", frozenset(), {}, opset=9)
    old = blamed(compared(tmp_path, x), keep=1)
    assert not old.imitated
    assert old.not_imitated == "ONNX 9 cannot quantise as the device does"


def test_a_model_too_old_to_quantise_is_refused(
    tmp_path: Path, x: Array, scales: dict[str, float]
) -> None:
    write(tmp_path / "old.onnx", frozenset(), {}, opset=9)
    executor = OnnxRuntimeExecutor(tmp_path / "old.onnx", read(tmp_path / "old.onnx"))
    assert isinstance(executor, Quantising)
    reading = QuantisedRead("m1", "x1", np.array([scales["x1"]]), np.zeros(1))
    with pytest.raises(ExecutionError, match="cannot quantise"):
        executor.with_readings({"x0": x}, ["m1"], ["x8"], [reading])


@pytest.mark.parametrize("signed", [True, False])
def test_readings_of_several_scales_are_those_of_the_quantising_op(
    tmp_path: Path, x: Array, scales: dict[str, float], signed: bool
) -> None:
    executor = OnnxRuntimeExecutor(tmp_path / "golden.onnx", read(tmp_path / "golden.onnx"))
    plain = dict(executor.run({"x0": x}))
    steps = np.linspace(0.01, 0.05, WIDE).astype(np.float32)
    zero = np.zeros(1) if signed else np.full(WIDE, 128)
    reading = QuantisedRead("m1", "x1", steps, zero, signed, axis=1)
    model = executor.with_readings({"x0": x}, ["m1"], ["m1", f"x{LAYERS}"], [reading])
    assert np.array_equal(model.run({})[f"x{LAYERS}"], plain[f"x{LAYERS}"])
    assert np.array_equal(model.run_quantised({}, {"m1"})["m1"], plain["m1"])
    weights = numpy_helper.to_array(onnx.load_model(tmp_path / "golden.onnx").graph.initializer[1])
    whole = np.clip(np.rint(plain["x1"] / steps), -128, 127) * steps
    assert np.allclose(model.run_quantised({}, ())["m1"], whole @ weights, atol=1e-5)
    moved = model.run_quantised({"m1": np.array(1, np.float32)}, ())["m1"]
    assert np.allclose(moved, whole @ weights + 1, atol=1e-5)
