"""Dumps that an op working in place overwrote hold what that op made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.model import LineageRule, TensorIO, TensorRef, Verdict

RNG = np.random.default_rng(9)
NODES = (
    helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
    helper.make_node("Relu", ["a"], ["r"], "relu"),
    helper.make_node("Softplus", ["r1"], ["l"], "soft"),
    helper.make_node("Add", ["r", "one"], ["r1"], "shift"),
    helper.make_node("MatMul", ["l", "v"], ["y"], "end"),
)
WEIGHTS = {
    "w": RNG.standard_normal((30, 20)).astype(np.float32),
    "v": RNG.standard_normal((20, 5)).astype(np.float32),
    "one": np.ones(1, np.float32),
}


def softplus(values: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(values)).astype(np.float32)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunData]:
    nodes = [NODES[0], NODES[1], NODES[3], NODES[2], NODES[4]]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 5])],
        [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    for side in ("golden", "device"):
        capture(CaptureRequest(tmp_path / "m.onnx", tmp_path / side, seed=5))
    dumps = {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}

    def changed(**values: Callable[[dict[str, np.ndarray]], np.ndarray]) -> RunData:
        known = {name: np.load(path) for name, path in dumps.items()}
        for name, value in values.items():
            np.save(dumps[name], value(known))
        request = (tmp_path / "m.onnx", tmp_path / "golden", tmp_path / "m.onnx")
        return compare(CompareRequest(*request, tmp_path / "device", root_cause=KNOWN))

    return changed


def golden_of(data: RunData, op: str) -> TensorRef | None:
    item = next(each for each in data.comparisons if each.op == op and each.io is TensorIO.OUTPUT)
    assert item.rule is (LineageRule.SAME_VALUES if item.golden.op != op else item.rule)
    return item.golden


def test_a_product_that_holds_what_relu_made_of_it(run: Callable[..., RunData]) -> None:
    found = run(product=lambda known: known["relu"])
    assert golden_of(found, "product") == TensorRef("relu", 0)
    assert found.run.verdict is Verdict.CLEAN


def test_a_chain_of_ops_in_place(run: Callable[..., RunData]) -> None:
    last = {name: lambda known: known["soft"] for name in ("product", "relu", "shift")}
    found = run(**last)
    assert {golden_of(found, op) for op in last} == {TensorRef("soft", 0)}
    assert found.run.verdict is Verdict.CLEAN


@pytest.mark.parametrize("noise", [0.0, 0.005], ids=["exact", "in fewer bits"])
def test_an_op_in_place_that_hardly_changes_anything(tmp_path: Path, noise: float) -> None:
    """The Tanh of small values is next to them, nearer than eight bits can tell."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Tanh", ["a"], ["t"], "squash"),
        helper.make_node("MatMul", ["t", "v"], ["y"], "end"),
    ]
    x = RNG.standard_normal((64, 30)).astype(np.float32)
    for side, off in (("golden", 0.0), ("device", noise)):
        w = WEIGHTS["w"] * np.float32(0.03)
        held = {"w": w + np.float32(off * 0.03) * WEIGHTS["w"][::-1], "v": WEIGHTS["v"]}
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 30])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 5])],
            [numpy_helper.from_array(value, name) for name, value in held.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
        np.save(tmp_path / "x.npy", x)
        capture(CaptureRequest(tmp_path / "m.onnx", tmp_path / side, {"x": tmp_path / "x.npy"}))
        if side == "golden":
            (tmp_path / "m.onnx").rename(tmp_path / "golden.onnx")
    dumps = {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}
    np.save(dumps["product"], np.load(dumps["squash"]))
    sides = tmp_path / "golden.onnx", tmp_path / "golden", tmp_path / "m.onnx", tmp_path / "device"
    assert golden_of(compare(CompareRequest(*sides)), "product") == TensorRef("squash", 0)


def test_an_op_that_was_not_computed_is_no_work_in_place(run: Callable[..., RunData]) -> None:
    """The two hold the same values as well, but those of the first."""
    found = run(
        relu=lambda known: known["product"],
        shift=lambda known: known["product"] + 1,
        soft=lambda known: softplus(known["product"] + 1),
        end=lambda known: softplus(known["product"] + 1) @ WEIGHTS["v"],
    )
    assert golden_of(found, "product") == TensorRef("product", 0)
    assert [each.op for each in found.origins][:1] == ["relu"]


def test_a_fault_in_what_was_overwritten_is_seen_in_the_op_that_did(
    run: Callable[..., RunData],
) -> None:
    def wrong(known: dict[str, np.ndarray]) -> np.ndarray:
        made = known["relu"].copy()
        made[:, 3] *= np.float32(1.5)
        return made

    found = run(
        product=wrong,
        relu=wrong,
        shift=lambda known: wrong(known) + 1,
        soft=lambda known: softplus(wrong(known) + 1),
        end=lambda known: softplus(wrong(known) + 1) @ WEIGHTS["v"],
    )
    assert golden_of(found, "product") == TensorRef("relu", 0)
    assert [each.op for each in found.origins] == ["product"]


def test_an_activation_of_several_ops_that_the_device_computes_as_one(
    tmp_path: Path,
) -> None:
    """The product is read twice: by the sigmoid, which the device does not make, and by what
    multiplies it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Sigmoid", ["a"], ["s"], "gate"),
        helper.make_node("Mul", ["a", "s"], ["m"], "silu"),
        helper.make_node("MatMul", ["m", "v"], ["y"], "end"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 5])],
        [numpy_helper.from_array(WEIGHTS[name], name) for name in "wv"],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    for side in ("golden", "device"):
        capture(CaptureRequest(tmp_path / "m.onnx", tmp_path / side, seed=5))
    dumps = {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}
    dumps["gate"].unlink()
    np.save(dumps["product"], np.load(dumps["silu"]))

    request = (tmp_path / "m.onnx", tmp_path / "golden", tmp_path / "m.onnx")
    found = compare(CompareRequest(*request, tmp_path / "device"))

    assert golden_of(found, "product") == TensorRef("silu", 0)
    assert found.run.verdict is Verdict.CLEAN
