"""Variables that a user saved with msprobe: ``debug.json`` in place of ``dump.json``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from divergraph.dump_diff.diff_dumps import DiffRequest, diff_dumps
from graphstore.model import TensorIO
from importers.dumps.detect import detect_dumps, scan_dumps
from importers.registry import read_graph


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "proc1", 1.0)


def written(folder, value):
    data = folder / "dump_tensor_data"
    data.mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": value,
              "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "data_name": "loss.0.debug.npy"}  # fmt: skip
    pair = [dict(tensor, data_name=f"pair.0.debug.{at}.npy") for at in (0, 1)]
    content = {"task": "tensor", "level": "debug", "framework": "pytorch", "data": {
        "loss.0.debug": tensor, "pair.0.debug": pair}}  # fmt: skip
    (folder / "debug.json").write_text(json.dumps(content))
    for name in ("loss.0.debug", "pair.0.debug.0", "pair.0.debug.1"):
        np.save(data / f"{name}.npy", np.array([0, value], np.float32))
    return folder


def test_variables_are_ops_with_their_values(folder):
    graph = read_graph(folder)
    assert [len(op.outputs) for op in graph.ops] == [1, 2]
    assert [dump.kind for dump in detect_dumps(folder)] == ["msprobe"]
    index = scan_dumps(folder, graph)
    assert index.tensors.keys() == {
        ("loss.0.debug", TensorIO.OUTPUT, 0),
        ("pair.0.debug", TensorIO.OUTPUT, 0),
        ("pair.0.debug", TensorIO.OUTPUT, 1),
    }


def test_two_folders_are_held_against_each_other(folder, tmp_path):
    found = diff_dumps(DiffRequest(written(tmp_path / "proc2", 2.0), folder))
    assert (found.compared, found.over) == (3, 3)
