"""Outputs whose dump is not what was read: what the ops behind them made proves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData

NODES = (
    helper.make_node("Sin", ["x"], ["a"], "wave"),
    helper.make_node("Exp", ["a"], ["e"], "grow"),
    helper.make_node("Tanh", ["e"], ["t"], "squash"),
    helper.make_node("Softplus", ["e"], ["p"], "soften"),
    helper.make_node("Sub", ["t", "p"], ["y"], "end"),
)
Changed = Callable[..., RunData]
RNG = np.random.default_rng(3)
OTHER = RNG.uniform(0.4, 2.5, (8, 20)).astype(np.float32)
"""What a buffer holds that was used again."""


def softplus(values: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(values)).astype(np.float32)


@pytest.fixture
def run(tmp_path: Path) -> Changed:
    graph = helper.make_graph(
        NODES,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 20])],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    for side in ("golden", "device"):
        capture(CaptureRequest(tmp_path / "m.onnx", tmp_path / side, seed=5))
    dumps = {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}

    def changed(**values: np.ndarray) -> RunData:
        for name, value in values.items():
            assert value.dtype == np.float32
            np.save(dumps[name], value)
        request = (tmp_path / "m.onnx", tmp_path / "golden", tmp_path / "m.onnx")
        return compare(CompareRequest(*request, tmp_path / "device"))

    changed.grown = np.load(dumps["grow"])  # type: ignore[attr-defined]
    return changed


def said(data: RunData) -> list[str]:
    return [each for each in data.run.warnings if "of another moment" in each]


def test_readers_of_a_buffer_that_was_used_again_are_not_guilty(run: Changed) -> None:
    data = run(grow=OTHER)
    assert [each.op for each in data.origins] == ["grow"]
    assert not data.suspects
    (remark,) = said(data)
    assert remark.startswith("grow:0: squash, soften read the right values")


def test_a_fault_before_it_is_found_through_it(run: Changed) -> None:
    """The op whose dump is of no use made an error: what it made is judged with its readers."""
    wrong = run.grown * np.float32(1.25)  # type: ignore[attr-defined]
    squashed, softened = np.tanh(wrong), softplus(wrong)
    data = run(grow=OTHER, squash=squashed, soften=softened, end=squashed - softened)
    assert "grow" in [each.op for each in data.origins]
    assert not said(data)


def test_readers_that_computed_from_the_dump_keep_it_guilty(run: Changed) -> None:
    squashed, softened = np.tanh(OTHER), softplus(OTHER)
    data = run(grow=OTHER, squash=squashed, soften=softened, end=squashed - softened)
    assert [each.op for each in data.origins] == ["grow"]
    assert not said(data)


def test_one_reader_of_the_dump_is_enough_for_that(run: Changed) -> None:
    right, squashed = softplus(run.grown), np.tanh(OTHER)  # type: ignore[attr-defined]
    data = run(grow=OTHER, squash=squashed, end=squashed - right)
    assert "grow" in [each.op for each in data.origins]
    assert not said(data)


def test_two_of_them_in_a_row(run: Changed) -> None:
    data = run(wave=OTHER[::-1].copy(), grow=OTHER)
    assert {each.op for each in data.origins} == {"wave", "grow"}
    assert len(said(data)) == 2


def test_an_output_of_the_model_is_what_the_user_reads(run: Changed) -> None:
    data = run(end=OTHER)
    assert [each.op for each in data.origins] == ["end"]
