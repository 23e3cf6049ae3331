"""A small network and devices with faults, compared, in one store."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import SAID
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run


def network(path: Path, factors: dict[str, float]) -> Path:
    """Five layers with two branches; weights of a device are times *factors*."""
    draw = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(
            draw.standard_normal((16, 16)).astype(np.float32) / 4 * np.float32(factors.get(n, 1)), n
        )
        for n in ("w0", "w1", "w2", "w3")
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "act"),
        helper.make_node("MatMul", ["b", "w1"], ["c"], "left"),
        helper.make_node("MatMul", ["b", "w2"], ["d"], "right"),
        helper.make_node("Add", ["c", "d"], ["e"], "join"),
        helper.make_node("Tanh", ["e"], ["f"], "squash"),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "last"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=9), str(path))
    return path


FAULTS = {
    "one": {"w1": 1.3},
    "three": {"w0": 1.2, "w2": 0.8, "w3": 1.1},
    "clean": {},
}


@pytest.fixture(scope="session")
def compared(tmp_path_factory) -> Path:
    """A folder with the models, their dumps, and ``store`` with a run for each of FAULTS."""
    folder = tmp_path_factory.mktemp("compared")
    golden = network(folder / "golden.onnx", {})
    assert run(["capture", *map(str, [golden, "-o", folder / "golden", "--random", 1])]) == 0
    for name, factors in FAULTS.items():
        device = network(folder / f"{name}.onnx", factors)
        assert run(["capture", *map(str, [device, "-o", folder / name, "--random", 1])]) == 0
        sides = ["--golden", golden, "--golden-dump", folder / "golden", "--device", device]
        sides += ["--device-dump", folder / name, "--run", name, "--store", folder / "store"]
        assert run(["compare", *map(str, sides), *SAID]) in (0, 1)
    # an engine that was built from the model: its graph is the golden one, its values err
    sides = ["--golden", golden, "--golden-dump", folder / "golden", "--device", golden]
    sides += ["--device-dump", folder / "one", "--run", "engine", "--store", folder / "store"]
    assert run(["compare", *map(str, sides), *SAID]) == 1
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    """Answers are kept for this test alone."""
    before = os.environ.get("DIVERGRAPH_CACHE")
    os.environ["DIVERGRAPH_CACHE"] = str(tmp_path / "cache")
    yield tmp_path / "cache"
    if before is None:
        del os.environ["DIVERGRAPH_CACHE"]
    else:
        os.environ["DIVERGRAPH_CACHE"] = before


@pytest.fixture
def runs(compared, tmp_path) -> Path:
    """That store, for this test alone: runs keep what was found in them."""
    return Path(shutil.copytree(compared / "store", tmp_path / "runs"))


@pytest.fixture
def minimize(divergraph, runs) -> Callable[..., Any]:
    """``divergraph minimize`` on it."""

    def call(*arguments: object) -> Any:
        return divergraph("minimize", *arguments, "--store", runs)

    return call


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes a program of Python lines; gives the oracle that runs it."""

    def make(lines: str) -> str:
        path = tmp_path / "check.py"
        path.write_text("import json, os, sys, time, pathlib\n" + lines)
        return f"command:{shlex.quote(sys.executable)} {path} {{bundle}}"

    return make
