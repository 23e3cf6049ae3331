"""A dump reader of another package, in one file, is asked wherever dumps are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "extend.md"


def reader_of_the_page() -> str:
    """The dump reader that the how-to page shows."""
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    return next(block.partition("```")[0] for block in blocks if "HalvesReader" in block)


def write_halves(folder: Path, name: str, array: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    facts = f"{name} {' '.join(map(str, array.shape))}\n".encode()
    (folder / f"{name}.halves").write_bytes(facts + (array / 2).astype("<f4").tobytes())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command line of a process in whose environment the package is installed."""
    site = tmp_path / "site"
    facts = site / "halves-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / "halves_dumps.py").write_text(reader_of_the_page())
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: halves\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[divergraph.dumps]\nhalves = halves_dumps:HalvesReader\n"
    )
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, code: int = 0) -> str:
        command = [sys.executable, "-m", "divergraph", *map(str, arguments)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(site)},
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    return call


@pytest.fixture
def model(tmp_path):
    """``y = relu(x * 2)`` over three numbers."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], "double"),
        helper.make_node("Relu", ["doubled"], ["y"], "cut"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy"]
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [two])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.thorough
def test_a_made_up_format_is_read_everywhere(run, model, tmp_path):
    x = np.float32([[1, -2, 3]])
    write_halves(tmp_path / "feed", "x", x)
    device = tmp_path / "device"
    write_halves(device, "doubled", 2 * x)
    write_halves(device, "y", np.maximum(2 * x, 0) + np.float32([[0, 0, 1]]))

    assert "halves" in json.loads(run("detect", "--formats", "--json"))["dumps"]
    assert "dump, halves, 2 files (sure: doubled.halves holds a tensor)" in run("detect", device)

    run("capture", model, "--inputs", tmp_path / "feed" / "x.halves", "-o", tmp_path / "golden")
    golden = next((tmp_path / "golden").glob("cut.0.*.npy"))
    assert np.load(golden).tolist() == [[2, 0, 6]]

    sides = ("--golden", model, "--device", model)
    dumps = ("--golden-dump", tmp_path / "golden", "--device-dump", device)
    compared = json.loads(run("compare", *sides, *dumps, "--json", code=1))
    assert [origin["op"] for origin in compared["origins"]] == ["cut"]

    assert json.loads(run("tensor", device / "y.halves", "--json"))["tensors"][0]["first"] == [
        2,
        0,
        7,
    ]
    diffed = json.loads(run("diff", device, tmp_path / "golden", "--json", code=1))
    assert len(diffed["pairs"]) == 2

    run("convert", "-d", device, "-out", tmp_path / "arrays")
    assert np.load(tmp_path / "arrays" / "y.npy").tolist() == [[2, 0, 7]]
