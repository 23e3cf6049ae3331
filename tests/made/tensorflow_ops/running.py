"""Ops run by TensorFlow itself, and by their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from importers.registry import read_graph
from tests.made.tensorflow_ops.drawing import Array, Build, Draw

GIVEN = ("Placeholder", "Const")


@dataclass(frozen=True, slots=True)
class MadeOps:
    """Ops in a graph of TensorFlow, what they are fed, and what TensorFlow makes of it."""

    graph: Any
    feeds: Mapping[str, Array]
    values: Mapping[str, Array]

    @property
    def ops(self) -> list[Any]:
        """The ops that compute."""
        return [op for op in self.graph.get_operations() if op.type not in GIVEN]


def made_by_tensorflow(build: Build, draw: Draw) -> MadeOps:
    """The ops that *build* makes, run by TensorFlow."""
    import tensorflow as tf

    v1 = tf.compat.v1
    feeds: dict[str, Array] = {}

    def feed(value: Array) -> Any:
        placeholder = v1.placeholder(value.dtype, value.shape)
        feeds[placeholder.name] = value
        return placeholder

    graph = tf.Graph()
    with graph.as_default():
        build(tf.raw_ops, draw, feed)
        tensors = [t for op in graph.get_operations() if op.type not in GIVEN for t in op.outputs]
        with v1.Session() as session:
            values = session.run(tensors, feeds)
    return MadeOps(graph, feeds, {t.name: v for t, v in zip(tensors, values, strict=True)})


def check_value(name: str, found: Array, wanted: Array) -> None:
    """*found* is what TensorFlow made, with the rounding of some float32 operations."""
    assert found.dtype == wanted.dtype, name
    assert found.shape == wanted.shape, name
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=name)


def check_rows(folder: Path, build: Build, draw: Draw) -> None:
    """Run the ops *build* makes by TensorFlow and by their rows."""
    made = made_by_tensorflow(build, draw)
    path = folder / "graph.pb"
    path.write_bytes(made.graph.as_graph_def().SerializeToString())
    executor = TranslatedExecutor(tensorflow_program(read_graph(path), "", {}, (), ()))
    used = {tensor.name for tensor in executor.inputs}
    found = dict(executor.run({name: made.feeds[name] for name in made.feeds if name in used}))
    compared = 0
    for name, value in made.values.items():
        if name in found and not name.startswith("FusedBatchNormV3:5"):  # room nobody fills
            check_value(name, found[name], value)
            compared += 1
    assert compared, executor.unavailable
    types = {op.type for op in made.ops}
    assert types <= set(ROWS), types - set(ROWS)
