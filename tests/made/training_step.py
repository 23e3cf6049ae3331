"""A training step of TensorFlow as a model file with its checkpoint and golden dump."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.comparison import CompareRequest, compare
from divergraph.execute.installed import open_executor
from divergraph.execute.tensorflow.files import tensorflow
from divergraph.files.dump_names import MAPPING, DumpFileNames
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from importers.registry import read_graph

MODEL = "model.ckpt.meta"


def saved_step(folder: Path, build: Callable[[Any], Any], feeds: Mapping[str, np.ndarray]) -> Path:
    """*folder* with what *build* writes into a graph, with loops and branches of the old kind.

    *build* is given TensorFlow and returns the op that ends the step, or None. *feeds* are by
    tensor; the dump is in ``golden``.
    """
    tf = tensorflow()
    v1 = tf.compat.v1
    new_kind = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        graph = tf.Graph()
        with graph.as_default(), v1.Session() as session:
            if (end := build(tf)) is not None:
                v1.add_to_collection("train_op", end)
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "model.ckpt"))
    finally:
        if new_kind:
            v1.enable_control_flow_v2()
    files = {}
    for tensor, value in feeds.items():
        files[tensor] = folder / f"{tensor.partition(':')[0]}.npy"
        np.save(files[tensor], value)
    capture(CaptureRequest(folder / MODEL, folder / "golden", files))
    return folder


def dump_with_fault(
    step: Path, folder: Path, feeds: Mapping[str, np.ndarray], wrong: str, factor: float
) -> None:
    """Dump the step into *folder*, tensor *wrong* a *factor* too large and all behind it as it
    follows."""
    model = step / MODEL
    graph = read_graph(model)
    plain = open_executor(model, graph, {})
    ((_, right),) = plain.run(feeds, [wrong])
    plain.close()
    executor = open_executor(model, graph, {"feed": wrong})
    fed = {**feeds, wrong: right * np.float32(factor)}
    given = {each.name: fed[each.name] for each in executor.inputs}
    found = {**dict(executor.run(given)), **fed}
    executor.close()
    names = DumpFileNames(graph, 1)
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if tensor.name in found:
                np.save(folder / names.of_output(op, port), found[tensor.name])
    if mapping := names.mapping():
        (folder / MAPPING).write_text(mapping, encoding="utf-8")


def compared(step: Path, device: Path) -> RunData:
    """The root-cause analysis of a dump in *device* against the golden one of *step*."""
    model, method = step / MODEL, MethodChoice.ROOT_CAUSE
    return compare(CompareRequest(model, step / "golden", model, device, method=method))
