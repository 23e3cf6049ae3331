"""A small ONNX model with a golden dump, and a device's dump written value by value."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from graphstore.contract import RunData
from graphstore.model import ErrorSplit, Guilt

Array = np.ndarray


def written(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    weights: Mapping[str, Array],
    outputs: Sequence[str],
) -> Path:
    """A model of these nodes, each named as its first output."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    for node in nodes:
        node.name = node.output[0]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save_model(helper.make_model(graph, opset_imports=[opset], ir_version=8), str(path))
    return path


def run_all(model: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The value of every tensor of the model, fed and computed, by ONNX Runtime."""
    proto = onnx.load_model(str(model))
    names = [name for node in proto.graph.node for name in node.output]
    known = {each.name for each in proto.graph.output}
    more = [helper.make_empty_tensor_value_info(name) for name in names if name not in known]
    proto.graph.output.extend(more)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return {**feeds, **dict(zip(names, session.run(names, dict(feeds)), strict=True))}


def dumped(folder: Path, model: Path, values: Mapping[str, Array]) -> Path:
    """A dump of *values*, by tensor, named as ``capture`` names them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ports = {
        name: (node.name, port)
        for node in onnx.load_model(str(model)).graph.node
        for port, name in enumerate(node.output)
    }
    for number, (name, value) in enumerate(values.items()):
        op, port = ports.get(name, (name, 0))
        np.save(folder / f"{op}.{port}.{1_700_000_000_000_000 + number}.npy", value)
    return folder


def compared(model: Path, golden: Mapping[str, Array], device: Mapping[str, Array]) -> RunData:
    """The comparison of two dumps of one model."""
    sides = (
        dumped(model.with_suffix("") / side, model, values)
        for side, values in (("golden", golden), ("device", device))
    )
    one, other = sides
    return compare(CompareRequest(model, one, model, other))


def split_of(data: RunData, op: str, port: int = 0) -> ErrorSplit:
    """The split of an op's output."""
    (found,) = (
        each.split
        for each in data.comparisons
        if each.split is not None and (each.op, each.port) == (op, port)
    )
    return found


def guilty(data: RunData) -> set[str]:
    """The ops that are guilty."""
    return {
        each.op
        for each in data.comparisons
        if each.split is not None and each.split.guilt is Guilt.GUILTY
    }
