"""Which weight, which channel: told where the device holds its weights in 8 bits, golden in floats.

The reference allows for that, so reruns with another weight must start from what is held as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx_files import written_model

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Finding, FindingKind

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(11)
node = helper.make_node
SHAPE = (2, 6, 14, 14)
WEIGHTS = {
    **{f"w{n}": 0.2 * DRAW.standard_normal((6, 6, 3, 3)).astype(np.float32) for n in range(4)},
    **{f"b{n}": DRAW.uniform(-0.3, 0.3, 6).astype(np.float32) for n in range(4)},
}
SCALES = {n: np.abs(WEIGHTS[f"w{n}"]).max(axis=(1, 2, 3)) / np.float32(127) for n in range(4)}


def nodes(weight: str) -> Iterator[onnx.NodeProto]:
    """Four convolutions with Relus, each reading *weight* with its number."""
    before = "x"
    for n in range(4):
        yield node(
            "Conv", [before, weight.format(n), f"b{n}"], [f"conv{n}"], f"conv{n}", pads=[1] * 4
        )
        before = "y" if n == 3 else f"relu{n}"
        yield node("Relu", [f"conv{n}"], [before], f"last{n}")


def device(path: Path, changed: Mapping[str, Array]) -> Path:
    """The model with its weights in 8 bits, some *changed* after they were rounded."""
    held: dict[str, Array] = {f"b{n}": WEIGHTS[f"b{n}"] for n in range(4)}
    for n, scale in SCALES.items():
        held[f"q{n}"] = np.rint(WEIGHTS[f"w{n}"] / scale.reshape(-1, 1, 1, 1)).astype(np.int8)
        held[f"s{n}"] = scale
    made = [
        node("DequantizeLinear", [f"q{n}", f"s{n}"], [f"d{n}"], f"d{n}", axis=0) for n in range(4)
    ]
    return written_model(path, [*made, *nodes("d{}")], {**held, **changed}, SHAPE)


def cause_of(folder: Path, changed: Mapping[str, Array]) -> Finding:
    golden = written_model(folder / "golden.onnx", list(nodes("w{}")), WEIGHTS, SHAPE)
    np.save(folder / "x.npy", np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32))
    graph = device(folder / "device.onnx", {})
    for path, name in ((golden, "golden"), (device(folder / "faulty.onnx", changed), "run")):
        capture(CaptureRequest(path, folder / name, {"x": folder / "x.npy"}))
    (folder / "dump").mkdir()
    for name in ("x", *(f"last{n}" for n in range(4))):
        for file in (folder / "run").glob(f"{name}.*"):
            file.rename(folder / "dump" / file.name)
    found = compare(CompareRequest(golden, folder / "golden", graph, folder / "dump"))
    return next(each for each in found.findings if each.kind is FindingKind.CAUSE)


def one_weight() -> dict[str, Array]:
    held = np.rint(WEIGHTS["w2"] / SCALES[2].reshape(-1, 1, 1, 1)).astype(np.int8)
    held[4, 2, 1, 0] = -127 if held[4, 2, 1, 0] > 0 else 127
    return {"q2": held}


def shifted() -> dict[str, Array]:
    bias = WEIGHTS["b2"].copy()
    bias[4] += np.float32(0.25)
    return {"b2": bias}


def test_one_weight_is_told_exactly(tmp_path: Path) -> None:
    found = cause_of(tmp_path, one_weight())
    value = one_weight()["q2"][4, 2, 1, 0] * SCALES[2][4]
    assert found.op == "last2"
    assert found.label == "wrong_weights", found.sentence
    assert f"has exactly what Conv conv2 gives with w2[4, 2, 1, 0] {value:.5g} in" in found.sentence


def test_so_is_a_bias(tmp_path: Path) -> None:
    found = cause_of(tmp_path, shifted())
    assert found.label in ("wrong_constant", "channel_offset"), found.sentence
    assert found.evidence["slices"] == [4]
