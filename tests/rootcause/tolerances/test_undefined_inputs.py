"""What follows from NaN, or from an overflow that stuck to 65504, has no second origin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.options import DEFAULT_OPTIONS, RootCauseOptions
from graphstore.contract import RunData
from graphstore.model import FindingKind

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
X = np.random.default_rng(5).choice([-0.9, -0.3, 0.1, 0.4, 0.95], (1, 2, 8, 8)).astype(np.float32)
X += np.random.default_rng(6).uniform(-0.05, 0.05, X.shape).astype(np.float32)
LOWEST = np.finfo(np.float32).min
READERS = {
    "pool": ("MaxPool", ["c"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "most": ("ReduceMax", ["c"], {"axes": [3], "keepdims": 0}),
    "place": ("ArgMax", ["c"], {"axis": 3, "keepdims": 0}),
    "clip": ("Clip", ["c", "low", "high"], {}),
    "relu": ("Relu", ["c"], {}),
    "larger": ("Max", ["c", "low"], {}),
    "less": ("Less", ["c", "high"], {}),
    "sorted": ("TopK", ["c", "two"], {"axis": 3}),
    "sum": ("Add", ["c", "high"], {}),
}
"""Ops that read the output with NaN; all but the last may swallow it."""


def saved(folder: Path, nodes: list[Any], constants: Mapping[str, Array], outputs: list[str]):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(X.shape))],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.save(folder / "x.npy", X)
    for side in ("golden", "device"):
        capture(CaptureRequest(path, folder / side, {"x": folder / "x.npy"}))
    return path


def readers(folder: Path, reader: str) -> Path:
    """A convolution with one of the readers, and the sum."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv")]
    outputs = ["sum"]
    for name in (reader, "sum"):
        kind, inputs, attributes = READERS[name]
        made = [name, f"{name}_at"] if kind == "TopK" else [name]
        outputs += made if name == reader else []
        nodes.append(helper.make_node(kind, inputs, made, name=name, **attributes))
    constants = {
        "w": rng.standard_normal((3, 2, 1, 1)).astype(np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.5),
        "two": np.array([2]),
    }
    return saved(folder, nodes, constants, outputs)


def overwrite(folder: Path, tensor: str, places: Any, value: Any) -> None:
    (path,) = (folder / "device").glob(f"{tensor}.*.npy")
    held = np.load(path)
    held[places] = value
    np.save(path, held)


def found(folder: Path, model: Path, root_cause: RootCauseOptions = DEFAULT_OPTIONS) -> RunData:
    sides = model, folder / "golden", model, folder / "device"
    return compare(CompareRequest(*sides, root_cause=root_cause))


BLOCK = (0, 0, slice(0, 2), slice(0, 4))
HALF = (0, 0, slice(0, 1), slice(0, 2))
SWALLOWED: Mapping[str, tuple[str, Any, Any]] = {
    "pool gives the lowest number": ("pool.0", HALF, LOWEST),
    "pool gives NaN": ("pool.0", HALF, np.nan),
    "maximum without the NaN": ("most.0", (0, 0, slice(0, 2)), 0.25),
    "maximum is NaN": ("most.0", (0, 0, slice(0, 2)), np.nan),
    "first place": ("place.0", (0, 0, slice(0, 2)), 0),
    "last place": ("place.0", (0, 0, slice(0, 2)), 7),
    "clipped low": ("clip.0", BLOCK, -0.5),
    "clipped high": ("clip.0", BLOCK, 0.5),
    "zero of a relu": ("relu.0", BLOCK, 0.0),
    "NaN of a relu": ("relu.0", BLOCK, np.nan),
    "the other operand": ("larger.0", BLOCK, -0.5),
    "not less": ("less.0", BLOCK, False),
    "less": ("less.0", BLOCK, True),
    "sorted first": ("sorted.0", (0, 0, slice(0, 2)), np.nan),
    "sorted last": ("sorted.0", (0, 0, slice(0, 2)), 0.1),
    "numbers of the sorted": ("sorted.1", (0, 0, slice(0, 2)), 7),
}


@pytest.mark.parametrize("case", SWALLOWED.values(), ids=SWALLOWED)
def test_only_what_makes_nan_is_an_origin(tmp_path: Path, case: tuple[str, Any, Any]) -> None:
    tensor, places, value = case
    model = readers(tmp_path, tensor.partition(".")[0])
    overwrite(tmp_path, "conv.0", BLOCK, np.nan)
    overwrite(tmp_path, "sum.0", BLOCK, np.nan)
    overwrite(tmp_path, tensor, places, value)
    data = found(tmp_path, model, KNOWN)
    assert [each.op for each in (*data.origins, *data.suspects)] == ["conv"]


@pytest.mark.parametrize("reader", ["pool", "most", "clip"])
def test_an_error_beside_the_nan_is_one_of_its_own(tmp_path: Path, reader: str) -> None:
    model = readers(tmp_path, reader)
    overwrite(tmp_path, "conv.0", BLOCK, np.nan)
    overwrite(tmp_path, "sum.0", BLOCK, np.nan)
    overwrite(tmp_path, f"{reader}.0", (0, 2), 0.3)
    assert {each.op for each in found(tmp_path, model, KNOWN).origins} == {"conv", reader}


def overflowing(folder: Path, *, wrong: float = 1.0) -> RunData:
    """A product past 65504 in float16 stays at 65504 on the device, and so does a multiple of it;
    the device's sum is *wrong* times what it should be."""
    constants = {"big": np.float32(8e4), "double": np.float32(1.2), "one": np.float32(1)}
    nodes = [
        helper.make_node("Mul", ["x", "big"], ["product"], name="product"),
        helper.make_node("Mul", ["product", "double"], ["twice"], name="twice"),
        helper.make_node("Add", ["x", "one"], ["sum"], name="sum"),
    ]
    model = saved(folder, nodes, constants, ["twice", "sum"])
    product = np.clip(X * np.float32(8e4), -65504, 65504).astype(np.float16)
    values = {
        "x": X.astype(np.float16),
        "product": product,
        "twice": np.clip(product.astype(np.float32) * np.float32(1.2), -65504, 65504).astype(
            np.float16
        ),
        "sum": ((X + 1) * np.float32(wrong)).astype(np.float16),
    }
    for name, value in values.items():
        (path,) = (folder / "device").glob(f"{name}.0.*.npy")
        np.save(path, value)
    return found(folder, model)


def test_what_was_handed_an_overflow_that_stuck_is_no_origin(tmp_path: Path) -> None:
    data = overflowing(tmp_path)
    assert [each.op for each in (*data.origins, *data.suspects)] == ["product"]
    (cause,) = (each for each in data.findings if each.kind is FindingKind.CAUSE)
    assert cause.label == "saturation"
    assert "(the largest float16)" in cause.sentence


def test_a_fault_beside_an_overflow_is_an_origin(tmp_path: Path) -> None:
    data = overflowing(tmp_path, wrong=1.05)
    assert {each.op for each in data.origins} == {"product", "sum"}
