"""``divergraph blame``: shares, and files of ops to keep."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def written(path: Path, *factors: float) -> Path:
    """Three layers, the weights of each times a factor."""
    draw = np.random.default_rng(2)
    weights = [
        numpy_helper.from_array(
            draw.standard_normal((16, 16)).astype(np.float32) / 4 * factor, name
        )
        for name, factor in zip(("w0", "w1", "w2"), map(np.float32, factors), strict=True)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "w1"], ["b"], "second"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "last"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "net.onnx", 1, 1, 1)


def test_blame_of_a_run_writes_lists_of_ops(divergraph, model: Path, tmp_path: Path) -> None:
    store, golden, dump = tmp_path / "store", tmp_path / "golden", tmp_path / "dump"
    device = written(tmp_path / "device.onnx", 1, 1.1, 1.01)
    divergraph("capture", model, "--random", "1", "-o", golden)
    divergraph("capture", device, "--random", "1", "-o", dump)
    compared = ("--golden", model, "--golden-dump", golden, "--device", device)
    divergraph("compare", *compared, "--device-dump", dump, "--run", "r", "--store", store)
    files = {name: tmp_path / name for name in ("keep", "types", "block")}
    told = divergraph(
        "blame", "r", "--top", "2", "--store", store, "--json",
        *("--keep-dtype", files["keep"], "--customize-dtypes", files["types"]),
        *("--block-list", files["block"]),
    ).json  # fmt: skip
    assert [share["op"] for share in told["shares"]] == ["second", "last"]
    assert told["shares"][0]["share"] == pytest.approx(0.1 / 0.111, rel=0.01)
    assert [kept["op"] for kept in told["keep"]] == ["second", "last"]
    # The last layer's error is 1 % of what it made of an input 10 % too large.
    assert told["keep"][0]["left"] == pytest.approx(0.011 / 0.111, rel=0.01)
    assert told["unexplained"] < 1e-4
    assert files["keep"].read_text().splitlines() == ["second", "last"]
    types = files["types"].read_text().splitlines()
    assert types[0] == "second::InputDtype:float32,float32,OutputDtype:float32"
    assert files["block"].read_text().splitlines() == ["second", "last"]
    said = divergraph("blame", "r", "--store", store).out
    assert "proved by runs" in said
    shown = divergraph("origins", "r", "--store", store, "--json").json["origins"]
    assert shown[0]["share"] == pytest.approx(0.1 / 0.111, rel=0.01)


def test_dumps_written_since_the_comparison_are_told_of(
    divergraph, model: Path, tmp_path: Path
) -> None:
    store, golden, dump = tmp_path / "store", tmp_path / "golden", tmp_path / "dump"
    device = written(tmp_path / "device.onnx", 1, 1.1, 1)
    divergraph("capture", model, "--random", "1", "-o", golden)
    divergraph("capture", device, "--random", "1", "-o", dump)
    compared = ("--golden", model, "--golden-dump", golden, "--device", device)
    divergraph("compare", *compared, "--device-dump", dump, "--run", "r", "--store", store)
    assert divergraph("blame", "r", "--store", store, "--json").json["warnings"] == []
    replaced = next(dump.glob("*second*"))
    later = time.time() + 60
    os.utime(replaced, (later, later))
    told = divergraph("blame", "r", "--store", store, "--json")
    (said,) = told.json["warnings"]
    assert "1 dump file written after the run was compared" in said
    assert replaced.name in said
    assert said in told.err
    shown = divergraph("analyse", "r", "--store", store, "--json").json
    assert shown["warnings"].count(said) == 1


def test_blame_without_its_dumps_says_so(divergraph, model: Path, tmp_path: Path) -> None:
    store, golden = tmp_path / "store", tmp_path / "golden"
    divergraph("capture", model, "--random", "1", "-o", golden)
    compared = ("--golden", model, "--golden-dump", golden, "--device", model)
    divergraph("compare", *compared, "--device-dump", golden, "--run", "r", "--store", store)
    same = divergraph("blame", "r", "--store", store)
    assert "no op introduces an error" in same.out
    model.unlink()
    failed = divergraph("blame", "r", "--store", store)
    assert failed.code == 2
    assert "Traceback" not in failed.err
