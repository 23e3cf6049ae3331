"""Lineage of recorded runs through what nobody recorded: views, casts, parts, gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphstore.model import ModelGraph
from importers.registry import read_graph

MODES = ("tensor", "statistics")


def tensor(values: np.ndarray, dtype: str = "float32") -> dict[str, Any]:
    wide = values.astype(np.float32)
    summed = np.cumsum(wide), np.cumsum(wide**2)  # in float32, in order, as a device may
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(values.shape),
        "Max": float(wide.max()),
        "Min": float(wide.min()),
        "Mean": float(summed[0][-1] / wide.size),
        "Norm": float(np.sqrt(summed[1][-1])),
        "values": values.astype(np.float32),
    }


class Recorder:
    """Writes calls as msprobe does; ``files`` says whether with values."""

    def __init__(self, folder: Path, *, files: bool) -> None:
        self._folder, self._files = folder, files
        self._calls: dict[str, Any] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def call(self, name: str, inputs: list[Any], outputs: list[Any]) -> None:
        arguments, made = (
            [self._stored(f"{name}.{io}.{at}", each) for at, each in enumerate(tensors)]
            for io, tensors in (("input", inputs), ("output", outputs))
        )
        key = "input" if name.endswith("backward") else "input_args"
        self._calls[name] = {key: arguments, "output": made}

    def _stored(self, name: str, said: Any) -> Any:
        said = tensor(said) if isinstance(said, np.ndarray) else said
        found = {key: value for key, value in said.items() if key != "values"}
        if self._files:
            np.save(self._folder / "dump_tensor_data" / f"{name}.npy", said["values"])
            found["data_name"] = f"{name}.npy"
        return found

    def graph(self) -> ModelGraph:
        task = "tensor" if self._files else "statistics"
        head = {"task": task, "level": "L1", "framework": "pytorch", "data": self._calls}
        (self._folder / "dump.json").write_text(json.dumps(head), encoding="utf-8")
        return read_graph(self._folder)


@pytest.fixture(params=MODES)
def recorder(request, tmp_path) -> Recorder:
    return Recorder(tmp_path / "run", files=request.param == "tensor")


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def brought(graph: ModelGraph, call: str) -> list[tuple[str, str]]:
    """What edges nobody recorded bring to *call*: from which calls, and how."""
    op = next(op for op in graph.ops if op.name == call)
    return [
        (ref.producer.op, ref.tensor.partition(" (")[2].rstrip(")"))
        for ref in op.inputs
        if ref is not None and ref.producer is not None and " (" in ref.tensor
    ]


X = draw(2, 6, 8)
PROJECTED = "Functional.linear.0.forward"


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (tensor(X.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)), "view"),
        (tensor(X.astype(ml_dtypes.bfloat16), "bfloat16"), "cast"),
        (tensor(X.astype(np.float16), "float16"), "cast"),
        (tensor(np.repeat(X, 2, axis=1)), "repeated"),
        (tensor(X[..., : int(X.argmax() % 8) + 1]), "part"),
    ],
    ids=["transposed", "to_bfloat16", "to_float16", "repeat_interleave", "slice"],
)
def test_what_was_done_between_two_calls_is_an_edge(recorder, said, how):
    recorder.call(PROJECTED, [draw(3, 3)], [X])
    recorder.call("Torch.matmul.0.forward", [said, draw(4, 5)], [draw(7, 7)])
    assert brought(recorder.graph(), "Torch.matmul.0.forward") == [(PROJECTED, how)]


def test_counts_that_are_cast_are_an_edge(recorder):
    counts = np.array([29, 6, 18, 11])
    made = {**tensor(counts, "int64"), "Mean": None, "Norm": None}  # as msprobe says of them
    recorder.call("Torch.bincount.0.forward", [draw(3, 3)], [made])
    recorder.call("Tensor.__truediv__.0.forward", [counts.astype(np.float32)], [draw(2, 2)])
    assert brought(recorder.graph(), "Tensor.__truediv__.0.forward") == [
        ("Torch.bincount.0.forward", "cast")
    ]


def test_stacked_tensors_come_from_both(recorder):
    high, low = np.abs(X) + 1, -np.abs(X) - 1
    recorder.call("Tensor.__sub__.0.forward", [draw(3, 3)], [high])
    recorder.call("Tensor.__add__.0.forward", [draw(3, 4)], [low])
    recorder.call("Torch.matmul.0.forward", [np.stack([high, low], -1)], [draw(7, 7)])
    found = brought(recorder.graph(), "Torch.matmul.0.forward")
    assert sorted(found) == [
        ("Tensor.__add__.0.forward", "joined"),
        ("Tensor.__sub__.0.forward", "joined"),
    ]


def test_a_slice_without_the_extremes_is_known_by_its_values(tmp_path):
    inner = np.sort(X.ravel())[8:40]
    for files, expected in ((True, [(PROJECTED, "part")]), (False, [])):
        recorder = Recorder(tmp_path / str(files), files=files)
        recorder.call(PROJECTED, [draw(3, 3)], [X])
        recorder.call("Torch.abs.0.forward", [inner], [draw(7, 7)])
        assert brought(recorder.graph(), "Torch.abs.0.forward") == expected


def test_other_values_of_like_size_come_from_nowhere(recorder):
    recorder.call(PROJECTED, [draw(3, 3)], [X])
    recorder.call("Torch.abs.0.forward", [draw(6, 2, 9)], [draw(7, 7)])
    assert brought(recorder.graph(), "Torch.abs.0.forward") == []


def test_a_gradient_adds_up_what_the_ways_back_of_all_readers_gave(recorder):
    one, other, out = draw(2, 9), draw(2, 10), draw(9, 2)
    recorder.call(PROJECTED, [draw(3, 3)], [X])
    recorder.call("Torch.tanh.0.forward", [X], [one])
    recorder.call("Torch.exp.0.forward", [X], [other])
    first, second = draw(2, 6, 8) * 3, draw(2, 6, 8) ** 2
    recorder.call("Torch.exp.0.backward", [out], [first])
    recorder.call("Torch.tanh.0.backward", [draw(9, 3)], [second])
    recorder.call("Functional.linear.0.backward", [first + second], [draw(3, 3)])
    assert brought(recorder.graph(), "Functional.linear.0.backward") == [
        ("Torch.tanh.0.backward", "gradient"),
        ("Torch.exp.0.backward", "gradient"),
        (PROJECTED, "kept on the way there"),
    ]


def test_a_clipped_gradient_comes_from_the_gradient_and_the_factor(recorder):
    gradient, factor = draw(5, 8), np.array(0.375, np.float32)
    recorder.call("Functional.linear.0.backward", [draw(3, 4)], [gradient])
    recorder.call("Tensor.__mul__.0.forward", [draw(2, 2)], [factor])
    recorder.call("Tensor.lerp_.0.forward", [draw(5, 9), gradient * factor], [draw(5, 7)])
    assert brought(recorder.graph(), "Tensor.lerp_.0.forward") == [
        ("Functional.linear.0.backward", "scaled gradient"),
        ("Tensor.__mul__.0.forward", "scaled gradient"),
    ]
