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

NORMALISED = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "one" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "none" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 0 } } } } } }
node { name: "bn" op: "FusedBatchNormV3" input: "x" input: "one" input: "one" input: "none"
  input: "none" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "U" value { type: DT_FLOAT } }
  attr { key: "is_training" value { b: true } } attr { key: "data_format" value { s: "NHWC" } } }
node { name: "y" op: "Relu" input: "bn" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "zeros" op: "ZerosLike" input: "bn:5" attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_room_for_other_kernels_may_have_any_size(
    tmp_path: Path, divergraph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVERGRAPH_STORE", str(tmp_path / "store"))
    model = tmp_path / "bn.pbtxt"
    model.write_text(NORMALISED)
    x = np.random.default_rng(1).standard_normal((2, 5, 5, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "one.npy", np.ones(3, np.float32))
    golden, device = tmp_path / "golden", tmp_path / "device"
    dg.capture(model, golden, {"x": tmp_path / "x.npy", "one": tmp_path / "one.npy"})
    device.mkdir()
    # The kernels of TensorFlow and of oneDNN leave a number there, ours nothing.
    for room in ("bn.5.*", "zeros.0.*"):
        np.save(next(golden.glob(room)), np.float32(0))
    for file in golden.glob("*.npy"):
        value = np.load(file)
        wrong = file.match("bn.0.*") or file.match("y.0.*")
        np.save(device / file.name, value * np.float32(1.1) if wrong else value)
    sides = ("--golden", model, "--golden-dump", golden, "--device", model)
    assert divergraph("compare", *sides, "--device-dump", device, "--run", "bn").code == 1
    found = divergraph("blame", "bn", "--json").json
    assert found["left_out"] == ["zeros:0"]
    assert found["shares"][0]["op"] == "bn"


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
