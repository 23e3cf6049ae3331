"""Loops of the old kind, their gradients, and variables that are asked and looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_step import MODEL, compared, saved_step

from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
RUN = {"ResourceGather", "VarIsInitializedOp", "Exit"}


def build(tf: Any) -> None:
    """A look-up in a resource, and a loop that reads an array and another resource."""
    v1 = tf.compat.v1
    values = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    table = v1.get_variable("table", initializer=values, use_resource=True)
    step = v1.get_variable("step", initializer=np.float32(2), use_resource=True)
    rows = v1.placeholder(tf.int32, [2], "rows")
    found = tf.identity(tf.nn.embedding_lookup(table, rows), "found")
    v1.is_variable_initialized(table)
    arrays = tf.TensorArray(tf.float32, 2).unstack(found)
    _, total = tf.while_loop(
        lambda turn, _: turn < 2,
        lambda turn, held: (turn + 1, tf.tanh(held * step + arrays.read(turn))),
        [tf.constant(0), tf.zeros([3])],
    )
    tf.gradients(tf.identity(total, "total"), [found, step])


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its checkpoint, and the golden dump beside it."""
    folder = tmp_path_factory.mktemp("loop")
    return saved_step(folder, build, {"rows:0": np.array([2, 1], np.int32)})


def test_look_ups_and_loops_run_from_what_is_measured(step: Path) -> None:
    found = compared(step, step / "golden")
    types = {op.id: op.type for op in read_graph(step / MODEL).ops}
    splits = [(types[item.op], item.split) for item in found.comparisons if item.split is not None]
    assert {kind for kind, _ in splits} >= RUN
    failures = {kind: split.failure for kind, split in splits if split.failure}
    assert not RUN & set(failures), failures
    assert not found.origins


def test_a_fault_in_what_leaves_the_loop_of_the_gradient(step: Path, tmp_path: Path) -> None:
    gathers = [op for op in read_graph(step / MODEL).ops if op.type == "TensorArrayGatherV3"]
    found = None
    for file in (step / "golden").iterdir():
        values = np.load(file) if file.suffix == ".npy" else None
        named = next((op for op in gathers if file.name.startswith(op.id.replace("/", "_"))), None)
        if values is not None and named and values.shape == (2, 3) and found is None:
            found = named
            values = values * np.float32(1.3)
        if values is None:
            (tmp_path / file.name).write_bytes(file.read_bytes())
        else:
            np.save(tmp_path / file.name, values)
    assert found is not None
    origins = compared(step, tmp_path).origins
    assert [each.op for each in origins] == [found.id]


def test_in_half_precision_one_per_cent_behind_a_loop_is_too_much(
    step: Path, tmp_path: Path
) -> None:
    """The floor of a loop is that of its arithmetic, started from constants as it may be."""
    leaving = next(op for op in read_graph(step / MODEL).ops if op.id == "while/Exit_1")
    for file in (step / "golden").iterdir():
        if file.suffix != ".npy":
            (tmp_path / file.name).write_bytes(file.read_bytes())
            continue
        value = np.load(file)
        wrong = 1.01 if file.name.startswith(leaving.id.replace("/", "_")) else 1.0
        kind = np.float16 if value.dtype == np.float32 else value.dtype
        np.save(tmp_path / file.name, (value * wrong).astype(kind))
    found = compared(step, tmp_path)
    assert str(found.run.analysis.arithmetic) == "fp16"
    assert [each.op for each in found.origins][:1] == [leaving.id]
