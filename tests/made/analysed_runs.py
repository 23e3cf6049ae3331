"""Runs of a small ONNX model whose files are there, so that whatever takes files can be asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from float32_device import SAID
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run

OPS = ("act", "fc", "squash", "turn")


def analysed_runs(folder: Path, store: str) -> None:
    """Save the runs ``bad`` and ``worse`` of one model in *store*: on the device a weight is off.
    Models and dumps are in *folder*."""
    weight = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="fc"),
        helper.make_node("Tanh", ["b"], ["c"], name="squash"),
        helper.make_node("Neg", ["c"], ["y"], name="turn"),
    ]
    for name, factor in (("golden", 1), ("bad", 1.5), ("worse", 2)):
        weights = [numpy_helper.from_array(weight * np.float32(factor), "w")]
        graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        onnx.save(model, folder / f"{name}.onnx")
        made = folder / f"{name}.onnx", "-o", folder / name, "--random", "1"
        assert run(["capture", *map(str, made)]) == 0
        if name != "golden":
            sides = ["--golden", folder / "golden.onnx", "--golden-dump", folder / "golden"]
            sides += ["--device", folder / f"{name}.onnx", "--device-dump", folder / name]
            assert run(["compare", *map(str, sides), "--run", name, "--store", store, *SAID]) == 1
