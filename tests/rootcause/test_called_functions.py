"""Functions a graph calls: their ops are run and judged as those around the call."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_step import MODEL, compared, dump_with_fault, saved_step

from divergraph.execute.tensorflow.calls_in_place import calls_in_place
from divergraph.rootcause.groups.op_graph import unwritten
from graphstore.model import InputRef, TensorRef
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
X = np.linspace(-1, 2, 36, dtype=np.float32).reshape(1, 3, 4, 3)


def build(tf: Any) -> None:
    """A function in a function, with a batch normalisation that is not trained; the gradient."""
    v1 = tf.compat.v1
    weights = np.linspace(-1, 1, 9, dtype=np.float32).reshape(1, 1, 3, 3)
    kernel = v1.get_variable("kernel", initializer=weights, use_resource=True)
    x = v1.placeholder(tf.float32, X.shape, "x")

    @tf.function
    def inner(a: Any, b: Any) -> Any:
        return tf.subtract(b, a) * 2.0

    @tf.function
    def outer(value: Any) -> Any:
        y = tf.nn.conv2d(value, kernel, 1, "SAME")
        ones = [1.0, 1.0, 1.0]
        y = v1.nn.fused_batch_norm(y, ones, ones, ones, ones, is_training=False)[0]
        return inner(y, tf.tanh(value))

    tf.gradients(tf.multiply(outer(x), 0.5, "half"), [x])


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its checkpoint, and the golden dump beside it."""
    return saved_step(tmp_path_factory.mktemp("calls"), build, {"x:0": X})


def first(step: Path, kind: str) -> str:
    """The id of the first op of a type."""
    return next(op.id for op in read_graph(step / MODEL).ops if op.type == kind)


def test_ops_read_what_the_call_was_given_and_what_bodies_make(step: Path) -> None:
    graph = calls_in_place(read_graph(step / MODEL))
    assert not graph.subgraphs
    ops = graph.op_index()
    assert not any(op.subgraph or op.owns for op in graph.ops)
    assert ops[first(step, "Tanh")].inputs == (InputRef("x:0", TensorRef("x", 0)),)
    inside = {ref.producer.op for ref in ops[first(step, "Sub")].inputs if ref and ref.producer}
    assert first(step, "Tanh") in inside
    behind = {ref.producer.op for ref in ops["half"].inputs if ref and ref.producer}
    assert behind == {"StatefulPartitionedCall/f/Identity", "half/y"}


def test_each_op_of_a_function_is_judged(step: Path) -> None:
    found = compared(step, step / "golden")
    splits = {item.op: item.split for item in found.comparisons if item.split is not None}
    assert not splits[first(step, "Conv2D")].failure
    assert not splits[first(step, "Sub")].failure
    failed = {op for op, split in splits.items() if split.failure}
    assert "x" in failed
    assert failed <= {"x", first(step, "FusedBatchNormV3")}, "what it leaves nobody reads"
    assert not found.origins


def test_memory_that_nobody_wrote_says_nothing_wherever_calls_hand_it_on(
    step: Path, tmp_path: Path
) -> None:
    device = tmp_path / "device"
    shutil.copytree(step / "golden", device)
    empty = unwritten(read_graph(step / MODEL))
    assert {ref.op for ref in empty} > {first(step, "FusedBatchNormV3")}
    for number, ref in enumerate(sorted(empty, key=str)):
        for dump in device.glob(f"{ref.op.replace('/', '_')}.{ref.port}.*.npy"):
            np.save(dump, np.full_like(np.load(dump), 1e6 + number))
    assert not compared(step, device).origins


@pytest.mark.parametrize("kind", ["Conv2D", "Sub", "TanhGrad"])
def test_a_fault_in_a_function_is_that_of_its_op(step: Path, tmp_path: Path, kind: str) -> None:
    wrong = first(step, kind)
    dump_with_fault(step, tmp_path, {"x:0": X}, f"{wrong}:0", 1.1)
    assert [each.op for each in compared(step, tmp_path).origins] == [wrong]
