"""The commands of docs/explanation/propagation.md, on runs of the network it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import SAID
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "propagation.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"^```(bash|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NODES = (
    ("MatMul", ("x", "w_stem"), "stem"),
    ("Relu", ("stem",), "act"),
    ("MatMul", ("act", "w_left"), "left"),
    ("MatMul", ("act", "w_right"), "right"),
    ("Add", ("left", "right"), "join"),
    ("Mul", ("join", "factor"), "scale"),
    ("Add", ("scale", "bias"), "shift"),
    ("Tanh", ("shift",), "squash"),
    ("MatMul", ("squash", "w_head"), "y"),
)


def network(path: Path, larger: float = 1.0) -> Path:
    """The network; *larger* is the factor of the weight that is off."""
    random = np.random.default_rng(11)
    weights = {name: random.standard_normal((16, 16)) / 4 for name in ("w_stem", "w_left")}
    weights |= {name: random.standard_normal((16, 16)) / 4 for name in ("w_right", "w_head")}
    weights |= {"factor": np.array(0.5), "bias": random.standard_normal(16)}
    weights["w_left"] = weights["w_left"] * larger
    nodes = [helper.make_node(kind, list(taken), [out], name=out) for kind, taken, out in NODES]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    constants = [
        numpy_helper.from_array(np.asarray(value, np.float32), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder whose store has the runs ``old``, ``new`` and ``half``."""
    place = tmp_path_factory.mktemp("spread")
    made = {name: network(place / f"{name}.onnx") for name in ("golden", "old")}
    made["new"] = network(place / "new.onnx", 1.3)
    for name, model in made.items():
        assert run(["capture", str(model), "--random", "1", "-o", str(place / name)]) == 0

    def compare(name: str, device: str) -> int:
        sides = ["--golden", "golden.onnx", "--golden-dump", "golden"]
        sides += ["--device", f"{device}.onnx", "--device-dump", device]
        paths = [each if each.startswith("--") else str(place / each) for each in sides]
        return run(["compare", *paths, "--run", name, "--store", str(place / ".divergraph"), *SAID])

    assert compare("old", "old") == 0
    assert compare("new", "new") == 1
    for op in ("left", "right", "join", "scale"):
        (path,) = (place / "new").glob(f"{op}.0.*.npy")
        path.unlink()
    assert compare("half", "new") == 1
    return place


@pytest.fixture
def runs(folder, monkeypatch, capsys):
    """The working folder has the three runs in its store."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    capsys.readouterr()


def test_the_commands_print_what_the_page_shows(runs, capsys):
    printed, shown = "", 0
    for kind, text in BLOCKS:
        if kind == "bash":
            assert run(text.split()[1:]) == (1 if "compare-runs" in text else 0)
            printed = capsys.readouterr().out
        else:
            # how far above its floor differs from machine to machine
            any_number = re.sub(r"5\\\.7e\\\+05x", r"\\S+x", re.escape(text.rstrip("\n")))
            assert re.search(any_number, printed), printed
            shown += 1
    assert shown == 6


@pytest.mark.parametrize(
    "where", re.findall(r"--where '?([^`']+)'?`", PAGE), ids=lambda where: where
)
def test_the_filters_of_the_page_are_right(runs, where):
    assert run(["roles", "new", "--where", where]) == 0
    assert run(["ops", "new", "--where", where]) == 0
