"""Parts of ONNX models with values that are no tensors of numbers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(path: Path, nodes, inputs, outputs) -> Path:
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


@pytest.fixture
def compared(divergraph, tmp_path):
    """Captures a model on a value of its input and compares it with itself, as ``run``."""

    def call(path: Path, given: np.ndarray) -> None:
        np.save(tmp_path / "x.npy", given)
        dump = tmp_path / "dump"
        divergraph("capture", path, "--inputs", f"x={tmp_path / 'x.npy'}", "-o", dump)
        other = shutil.copytree(dump, tmp_path / "device")
        sides = ["--golden", path, "--golden-dump", dump, "--device", path, "--device-dump", other]
        assert divergraph("compare", *sides, "--run", "run", "--store", tmp_path / "s").code == 0

    return call


def test_text_that_is_fed_goes_into_the_part(compared, divergraph, tmp_path):
    nodes = [
        helper.make_node("Identity", ["x"], ["t"], "lower"),
        helper.make_node(
            "LabelEncoder", ["t"], ["c"], "code", domain="ai.onnx.ml",
            keys_strings=["one", "two"], values_floats=[1.5, 2.5], default_float=-1.0,
        ),
        helper.make_node("Exp", ["c"], ["y"], "exp"),
    ]  # fmt: skip
    path = model(
        tmp_path / "texts.onnx", nodes, [value("x", STRING, [3])], [value("y", FLOAT, [3])]
    )
    compared(path, np.array(["one", "two", "three"]))
    ended = divergraph(
        "submodel", "run", "--start", "lower", "--end", "exp", "-o", tmp_path / "out",
        "--check", "--json", "--store", tmp_path / "s",
    )  # fmt: skip
    assert (ended.code, ended.json["check"]["passed"]) == (0, True)
    (entry,) = json.loads(Path(ended.json["path"], "manifest.json").read_text())["inputs"]
    assert entry["dtype"] == "string"
    kept = np.load(Path(ended.json["path"], entry["golden"]), allow_pickle=False)
    assert kept.tolist() == ["one", "two", "three"]


def test_text_that_comes_out_is_compared_as_text(tmp_path):
    from divergraph.submodel.replay import replay

    made = np.array([b"one", b"two"], object)
    assert replay.apart(made, np.array(["one", "two"])) == 0.0
    assert replay.apart(made, np.array(["one", "tow"])) == float("inf")


@pytest.mark.slow
def test_a_sequence_at_the_boundary_is_refused_with_the_part_around_it(
    compared, divergraph, tmp_path
):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node("SplitToSequence", ["a"], ["s"], "split", axis=0),
        helper.make_node("ConcatFromSequence", ["s"], ["b"], "join", axis=1),
        helper.make_node("Exp", ["b"], ["y"], "exp"),
    ]
    path = model(tmp_path / "n.onnx", nodes, [value("x", FLOAT, [3, 2])], [value("y", FLOAT, None)])
    compared(path, np.ones((3, 2), np.float32))
    for start, end in (("join", "exp"), ("act", "split")):
        ends = ["--start", start, "--end", end, "--store", tmp_path / "s"]
        told = divergraph("submodel", "run", *ends, "--json")
        (refused,) = told.json["refused"]
        assert (told.code, refused["rule"]) == (2, "no_form")
        assert "s is not a tensor but a sequence" in refused["sentence"]
        offered = [w for op in refused["starts"] for w in ("--start", op)]
        offered += [w for op in refused["ends"] for w in ("--end", op)]
        legal = divergraph(
            "submodel", "run", *offered, "-o", tmp_path / "o", "--store", tmp_path / "s", "--json"
        )
        assert {"split", "join"} <= set(legal.json["ops"])
        done = subprocess.run([sys.executable, "replay.py"], cwd=legal.json["path"], check=False)
        assert done.returncode == 0
