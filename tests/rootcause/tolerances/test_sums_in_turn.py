"""Sums of numbers that were added one after another."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.sums_in_turn import in_turn
from graphstore.contract import RunData
from graphstore.model import InputRef, Op, Verdict

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(8)
SHAPE = (3, 20_000)
X = (RNG.standard_normal(SHAPE) - 18).astype(np.float32)
X[:, 5] = 0


def one_after_another(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    sums = np.float32([sum(row[1:], start=row[0]) for row in powers])
    return powers / sums[:, None]


def compared(folder: Path, made: Array) -> RunData:
    """A device that *made* one of four Softmaxes, and the other three exactly."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "soft", axis=-1)]
    short = ["x0", "x1", "x2", "x3"]
    nodes += [
        helper.make_node("Softmax", [read], [name], name)
        for read, name in itertools.pairwise(short)
    ]
    sides = {"x": SHAPE, "x0": (3, 50)}, {"y": SHAPE, "x3": (3, 50)}
    inputs, outputs = (
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
            for name, size in each.items()
        ]
        for each in sides
    )
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.onnx"
    onnx.save_model(model, str(path))
    feeds = {"x": folder / "x.npy", "x0": folder / "x0.npy"}
    np.save(feeds["x"], X)
    np.save(feeds["x0"], X[:, :50])
    for side in ("golden", "device"):
        capture(CaptureRequest(path, folder / side, feeds))
    np.save(next((folder / "device").glob("soft.*")), made)
    return compare(CompareRequest(path, folder / "golden", path, folder / "device"))


def test_a_softmax_that_loses_small_powers_beside_one_is_healthy(tmp_path: Path) -> None:
    found = compared(tmp_path, one_after_another(X))
    assert found.run.verdict is not Verdict.DIVERGED
    assert not found.suspects


def test_one_that_is_off_by_as_much_the_other_way_is_not(tmp_path: Path) -> None:
    exact = np.exp(X.astype(np.float64))
    exact /= exact.sum(-1, keepdims=True)
    lost = one_after_another(X) - exact
    found = compared(tmp_path, (exact - lost).astype(np.float32))
    assert [each.op for each in found.origins] == ["soft"]


@pytest.mark.parametrize(
    ("kind", "attrs", "shape"),
    [
        ("ReduceSum", {"keepdims": 1}, (4, 1, 1)),
        ("ReduceSum", {"keepdims": 0}, (4,)),
        ("ReduceMean", {"keepdims": 1}, (4, 30, 1)),
        ("GlobalAveragePool", {}, (4, 30, 1)),
        ("Softmax", {"axis": 1}, (4, 30, 70)),
        ("LogSoftmax", {"axis": -1}, (4, 30, 70)),
    ],
)
def test_sums_are_those_of_the_op_but_for_rounding(kind, attrs, shape) -> None:
    x = RNG.uniform(0, 1, (4, 30, 70)).astype(np.float32)
    wide = x.astype(np.float64)
    if "oftmax" in kind:
        powers = np.exp(wide)
        right = powers / powers.sum(attrs["axis"], keepdims=True)
        right = np.log(right) if kind == "LogSoftmax" else right
    else:
        axes = tuple(n for n in range(3) if n >= len(shape) or shape[n] == 1)
        right = (wide.sum if kind == "ReduceSum" else wide.mean)(axes).reshape(shape)
    op = Op("op", "op", kind, (InputRef("x"),), attrs=attrs)
    found = in_turn(op, {"x": x}, right.astype(np.float32))
    assert found is not None
    assert found.shape == shape
    assert found == pytest.approx(right, rel=1e-4)


def test_what_is_no_sum_of_these_numbers_is_none() -> None:
    x = np.ones((4, 5), np.float32)
    op = Op("op", "op", "ReduceSum", (InputRef("x"),), attrs={})
    assert in_turn(op, {"x": x}, np.full(4, 7, np.float32)) is None
    assert in_turn(op, {}, np.full(4, 5, np.float32)) is None
    assert in_turn(Op("op", "op", "Relu", (InputRef("x"),)), {"x": x}, x) is None
