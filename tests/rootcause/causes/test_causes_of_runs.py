"""Causes from files on: models run as golden and device, compared, and asked for origins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from onnx_files import written_model

from divergraph.cli.main import run
from graphstore.model import FindingKind
from graphstore.open_store import open_store

Array = np.ndarray[Any, Any]


def causes(folder: Path, golden: Path, device: Path | None, *more: str) -> list[Any]:
    """The causes found after running both; without *device*, a stand-in of the golden model."""
    calls = [["capture", golden, "--random", "1", "-o", folder / "golden"]]
    calls += [["capture", device or golden, "--random", "1", "-o", folder / "device", *more]]
    for call in calls:
        assert run([str(each) for each in call]) == 0
    made = device or folder / "device" / "golden.fp16.onnx"
    compared = ["compare", "--golden", golden, "--golden-dump", folder / "golden"]
    compared += ["--device", made, "--device-dump", folder / "device"]
    run([str(each) for each in [*compared, "--run", "r", "--store", folder / "store"]])
    with open_store(str(folder / "store")) as store:
        found = store.run_data("r").findings
    return [each for each in found if each.kind is FindingKind.CAUSE]


def test_an_overflow_that_a_reciprocal_hides(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], "scale"),
        helper.make_node("ReduceSumSquare", ["a"], ["s"], "sum", axes=[1]),
        helper.make_node("Reciprocal", ["s"], ["w"], "inverse"),
        helper.make_node("Mul", ["a", "w"], ["y"], "normed"),
    ]
    path = tmp_path / "golden.onnx"
    golden = written_model(path, nodes, {"k": np.array([300], np.float32)}, [4, 64])
    found = causes(tmp_path, golden, None, "--device", "fp16")
    first = next(each for each in found if each.op == "sum")
    assert first.label == "overflow"
    assert "inverse (Reciprocal)" in first.sentence


def test_other_pads_and_a_lost_bias(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    weights = {
        "w": draw.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "v": draw.standard_normal((8, 8, 3, 3)).astype(np.float32),
        "b": draw.uniform(0.5, 1, 8).astype(np.float32),
    }

    def nodes(pads: Sequence[int]) -> list[NodeProto]:
        # In steps of two, so that other pads give no shifted values but other ones.
        return [
            helper.make_node("Conv", ["x", "w"], ["a"], "one", pads=pads, strides=[2, 2]),
            helper.make_node("Conv", ["a", "v", "b"], ["y"], "two", pads=[1] * 4),
        ]

    golden = written_model(tmp_path / "golden.onnx", nodes([1] * 4), weights, [1, 3, 24, 24])
    lost = {**weights, "b": weights["b"] * np.array([0, 0, 1, 1, 1, 1, 1, 1], np.float32)}
    device = written_model(tmp_path / "other.onnx", nodes([0, 0, 2, 2]), lost, [1, 3, 24, 24])
    found = {each.op: each for each in causes(tmp_path, golden, device)}
    assert found["one"].label == "wrong_pads"
    assert "[0, 0, 2, 2] in place of [1, 1, 1, 1]" in found["one"].sentence
    assert found["two"].label == "lost_bias"
    assert "bias missing in channels 0-1" in found["two"].sentence


@pytest.mark.slow
def test_any_bits_in_a_dump_are_values_like_others(tmp_path: Path) -> None:
    """Uninitialised memory holds signalling NaN, of which casts would warn."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "relu"),
        helper.make_node("MatMul", ["a", "w"], ["y"], "matmul"),
    ]
    weights = {"w": np.random.default_rng(2).standard_normal((64, 8)).astype(np.float32)}
    golden = written_model(tmp_path / "golden.onnx", nodes, weights, [8, 64])
    causes(tmp_path, golden, golden)
    (dumped,) = (tmp_path / "device").glob("relu.0.*.npy")
    values = np.load(dumped)
    values.reshape(-1)[-40:].view(np.uint32)[:] = 0x7FA00001
    np.save(dumped, values)

    call = ["compare", "--golden", golden, "--golden-dump", tmp_path / "golden"]
    call += ["--device", golden, "--device-dump", tmp_path / "device"]
    run([str(each) for each in [*call, "--run", "bits", "--store", tmp_path / "store"]])

    with open_store(str(tmp_path / "store")) as store:
        found = [each for each in store.run_data("bits").findings if each.op == "relu"]
    assert [each.label for each in found if each.kind is FindingKind.CAUSE] == ["nan_origin"]
