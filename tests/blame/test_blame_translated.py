"""Blame on TensorFlow models that are translated, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divergraph as dg

NET = Path(__file__).parents[1] / "data" / "tensorflow" / "net.ckpt.meta"
X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


def test_placeholders_were_dumped_as_what_ops_make(
    tmp_path: Path, divergraph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVERGRAPH_STORE", str(tmp_path / "store"))
    np.save(tmp_path / "x.npy", X)
    golden, device = tmp_path / "golden", tmp_path / "device"
    dg.capture(NET, golden, {"x": tmp_path / "x.npy"})
    device.mkdir()
    error = np.float32(0.3) * np.sin(np.arange(8, dtype=np.float32)).reshape(2, 4)
    for file in golden.glob("*.npy"):
        value = np.load(file)
        op = file.name.split(".")[0]
        if op in ("MatMul", "BiasAdd"):
            value = value + error
        elif op == "y":
            before = np.load(next(golden.glob("BiasAdd.0.*")))
            value = np.maximum(before + error, 0)
        np.save(device / file.name, value)
    sides = ("--golden", NET, "--golden-dump", golden, "--device", NET, "--device-dump", device)
    assert divergraph("compare", *sides, "--run", "net").code == 1
    found = divergraph("blame", "net", "--json").json
    # The counter beside the net depends on nothing that is fed: it is no result.
    assert [each["tensor"] for each in found["outputs"]] == ["y:0"]
    assert found["shares"][0]["op"] == "MatMul"
    assert found["shares"][0]["share"] == pytest.approx(1, abs=1e-3)
    assert found["keep"][0]["op"] == "MatMul"
