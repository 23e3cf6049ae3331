"""Faults between two dumps: the op is not measured, what comes out behind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Finding, FindingKind

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(3)
WEIGHTS: Mapping[str, Array] = {
    "w": DRAW.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
    "b": DRAW.uniform(0.5, 1, 8).astype(np.float32),
    "scale": DRAW.uniform(0.5, 2, (8, 1, 1)).astype(np.float32),
    "v": DRAW.normal(0, 0.3, (6, 8, 1, 1)).astype(np.float32),
}
X = DRAW.standard_normal((1, 3, 12, 12)).astype(np.float32)
NODES = (
    helper.make_node("Conv", ["x", "w", "b"], ["conv"], "conv", pads=[1] * 4),
    helper.make_node("Tanh", ["conv"], ["tanh"], "tanh"),
    helper.make_node("Mul", ["tanh", "scale"], ["scaled"], "scaled"),
    helper.make_node("Conv", ["scaled", "v"], ["y"], "last"),
)


def model(path: Path, nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Array]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def cause(folder: Path, faulty: Callable[[Array], Array], after: str) -> Finding:
    """What is said where only the output is dumped, and *faulty* changed what comes out *after*."""
    golden = model(folder / "golden.onnx", NODES, WEIGHTS)
    np.save(folder / "x.npy", X)
    capture(CaptureRequest(golden, folder / "golden", {"x": folder / "x.npy"}))
    place = next(n for n, node in enumerate(NODES) if node.output[0] == after)
    (dumped,) = (folder / "golden").glob(f"{after}.0.*.npy")
    changed = np.ascontiguousarray(faulty(np.load(dumped)), np.float32)
    held = {**WEIGHTS, after: changed}
    rest = model(folder / "rest.onnx", NODES[place + 1 :], held)
    capture(CaptureRequest(rest, folder / "run", {"x": folder / "x.npy"}))
    (folder / "device").mkdir()
    for name in ("x", "last"):
        for file in (folder / "run").glob(f"{name}.*"):
            file.rename(folder / "device" / file.name)
    sides = golden, folder / "golden", golden, folder / "device"
    found = compare(CompareRequest(*sides, root_cause=KNOWN))
    return next(each for each in found.findings if each.kind is FindingKind.CAUSE)


def without_bias(values: Array) -> Array:
    return values - WEIGHTS["b"][:, None, None]


def without_an_end(values: Array) -> Array:
    return np.where(np.arange(values.size).reshape(values.shape) > 700, 0, values)


@pytest.mark.parametrize(
    ("faulty", "after", "label", "op"),
    [
        (np.arctanh, "tanh", "missing_op", "Tanh tanh"),
        (lambda v: np.clip(np.arctanh(v), -1, 1), "tanh", "wrong_activation", "HardTanh"),
        (without_bias, "conv", "lost_bias", "Conv conv"),
        (lambda v: 1.05 * v, "conv", "gain", "is 1.05 times"),
        (without_an_end, "scaled", "tail_not_written", "Mul scaled"),
        (lambda v: np.roll(v, 1, axis=-1), "tanh", "reordered", "shifted by +1"),
    ],
)
def test_what_failed_inside_is_named(
    tmp_path: Path, faulty: Callable[[Array], Array], after: str, label: str, op: str
) -> None:
    found = cause(tmp_path, faulty, after)
    assert found.label == label, found.sentence
    assert op in found.sentence


def test_what_nothing_inside_explains_is_not_sure(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).normal(0, 0.3, (1, 8, 12, 12))
    found = cause(tmp_path, lambda values: values + noise, "scaled")
    assert found.label == "unclassified" or found.confidence < 0.8
