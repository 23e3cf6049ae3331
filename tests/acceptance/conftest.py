"""Runs ONNX models for real and compares them with the command line, as a user would."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from divergraph.cli.main import run

STAMP = 1664180551000000
_EXIT_CODES = {"clean": 0, "within_rounding": 0, "diverged": 1, "not_compared": 2}


def dump_intermediates(model: Path, feeds: Mapping[str, np.ndarray], folder: Path) -> None:
    """Run *model* as it is and write every tensor of its main graph by the golden rule."""
    folder.mkdir()
    graph = onnx.load(model)
    known = {
        value.name: value for value in onnx.shape_inference.infer_shapes(graph).graph.value_info
    }
    outputs = {value.name for value in graph.graph.output}
    nodes = list(graph.graph.node)
    for node in nodes:
        for name in node.output:
            if name and name not in outputs:
                graph.graph.output.append(known.get(name) or onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(graph.SerializeToString(), options)
    names = [value.name for value in session.get_outputs()]
    values = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    for node in nodes:
        for port, name in enumerate(node.output):
            if name:
                # The op's name and the output's number, or the tensor's name if it has none.
                stem, index = (node.name, port) if node.name else (name, 0)
                written = stem.replace("/", "_").replace(":", ".")
                np.save(folder / f"{written}.{index}.{STAMP}.npy", values[name])


@dataclass(frozen=True)
class Case:
    """One golden model and its feeds, and device models made of it."""

    folder: Path
    golden: Path
    feeds: Mapping[str, np.ndarray]
    capsys: pytest.CaptureFixture[str]

    def optimised(self, model: Path, level: ort.GraphOptimizationLevel) -> Path:
        """*model* as ONNX Runtime would run it."""
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(self.folder / "optimised.onnx")
        ort.InferenceSession(str(model), options)
        return self.folder / "optimised.onnx"

    def with_fault(self, weight: str, change: Callable[[np.ndarray], np.ndarray]) -> Path:
        """The golden model with one initializer changed."""
        model = onnx.load(self.golden)
        (tensor,) = (each for each in model.graph.initializer if each.name == weight)
        old = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(change(old).astype(old.dtype), weight))
        onnx.save(model, self.folder / "faulty.onnx")
        return self.folder / "faulty.onnx"

    def compare(self, device: Path) -> Any:
        """What ``compare --json`` answers for the runs of both models."""
        golden_dump, device_dump = self.folder / "golden_dump", self.folder / "device_dump"
        dump_intermediates(self.golden, self.feeds, golden_dump)
        dump_intermediates(device, self.feeds, device_dump)
        arguments = ["compare", "--json", "--store", str(self.folder / "store")]
        arguments += ["--golden", str(self.golden), "--golden-dump", str(golden_dump)]
        arguments += ["--device", str(device), "--device-dump", str(device_dump)]
        self.capsys.readouterr()
        code = run(arguments)
        answer = json.loads(self.capsys.readouterr().out, parse_constant=_not_json)
        counts = answer["counts"]
        assert code == _EXIT_CODES[answer["verdict"]]
        assert counts["tensors"] == counts["compared"] + counts["not_compared"]
        assert counts["not_compared"] == len(answer["not_compared"])
        return answer


def _not_json(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Case]:
    """Makes a case of a model and its feeds."""

    def make(model: onnx.ModelProto, **feeds: np.ndarray) -> Case:
        golden = tmp_path / "golden.onnx"
        onnx.save(model, golden)
        return Case(tmp_path, golden, feeds, capsys)

    return make
