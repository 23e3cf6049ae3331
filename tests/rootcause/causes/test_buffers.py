"""What an op read is not what is dumped of it: dumps of another moment, work in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Finding, FindingKind

Array = np.ndarray[Any, Any]
NODES = (
    helper.make_node("Sin", ["x"], ["a"], "wave"),
    helper.make_node("Tanh", ["a"], ["t"], "squash"),
    helper.make_node("Softplus", ["a"], ["p"], "soften"),
    helper.make_node("Sub", ["t", "p"], ["y"], "end"),
)


@pytest.fixture
def sides(tmp_path: Path) -> dict[str, Path]:
    """Both sides dumped, alike; the device's dumps by op."""
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
    return {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}


def causes(folder: Path) -> dict[str, Finding]:
    request = (folder / "m.onnx", folder / "golden", folder / "m.onnx", folder / "device")
    found = compare(CompareRequest(*request)).findings
    return {each.op: each for each in found if each.kind is FindingKind.CAUSE}


def softplus(values: Array) -> Array:
    found: Array = np.log1p(np.exp(values)).astype(np.float32)
    return found


def test_a_reader_of_a_dump_of_another_moment_had_the_right_values(
    tmp_path: Path, sides: dict[str, Path]
) -> None:
    """One reader had the right values, the other those of the dump: the op is guilty all the same,
    as somebody read what is wrong."""
    late = np.maximum(np.load(sides["wave"]), 0)
    np.save(sides["wave"], late)
    np.save(sides["squash"], np.tanh(late))
    np.save(sides["end"], np.tanh(late) - np.load(sides["soften"]))

    found = causes(tmp_path)

    assert found["wave"].label == "wrong_activation"
    assert found["soften"].label == "dumped_otherwise"
    assert "gives of what a should have been" in found["soften"].sentence


def test_an_op_that_read_what_another_had_put_in_place_of_its_input(
    tmp_path: Path, sides: dict[str, Path]
) -> None:
    squashed = np.load(sides["squash"])
    np.save(sides["soften"], softplus(squashed))
    np.save(sides["end"], squashed - softplus(squashed))

    (found,) = causes(tmp_path).values()

    assert found.op == "soften"
    assert found.label == "overwritten_input"
    assert "Softplus soften gives of t in place of a, of which it is made" in found.sentence
