"""What of a device is measured, what a user sees of a fault, and the dump on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
from devices import Device
from faults import Array
from op_runner import OpRunner, names_read

from divergraph.files.dump_names import MAPPING, DumpFileNames
from divergraph.files.npy_file import write_npy
from graphstore.model import ModelGraph

VARIANTS = ("full", "fused", "rand50")

_ELEMENTWISE = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Erf", "Neg", "Abs", "Selu"),
        *("Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Clip", "Max", "Min"),
        *("Cast", "BatchNormalization", "Identity", "Reciprocal", "Floor", "Elu", "Softplus"),
    )
)


def hidden(variant: str, runner: OpRunner, rng: np.random.Generator) -> set[str]:
    """The tensors a device with that *variant* does not dump; never the outputs of the graph."""
    outputs = {each.name for each in runner.model.graph.output}
    made = [name for node in runner.nodes for name in node.output if name not in outputs]
    if variant == "rand50":
        return {name for name in made if rng.random() < 0.5}
    if variant == "fused":
        readers = Counter(name for node in runner.nodes for name in names_read(node))
        elementwise = {
            name
            for node in runner.nodes
            if node.op_type in _ELEMENTWISE
            for name in names_read(node)
        }
        return {name for name in made if readers[name] == 1 and name in elementwise}
    return set()


def relative_error(device: Array, golden: Array) -> float:
    """|d - g| / |g|; infinite where only the device is not finite."""
    if device.shape != golden.shape:
        return float("inf")
    one, other = device.astype(np.float64), golden.astype(np.float64)
    both = np.isfinite(one) & np.isfinite(other)
    if (np.isfinite(other) & ~np.isfinite(one)).any():
        return float("inf")
    norm = float(np.linalg.norm(other[both]))
    error = float(np.linalg.norm((one - other)[both]))
    return error / norm if norm else (0.0 if error == 0 else float("inf"))


def final_error(
    outputs: Collection[str], device: Mapping[str, Array], golden: Mapping[str, Array]
) -> float:
    """The largest relative error of the graph's outputs."""
    return max(relative_error(device[name], golden[name]) for name in outputs)


def write_dump(
    folder: Path, graph: ModelGraph, device: Device, values: Mapping[str, Array], hide: set[str]
) -> int:
    """Write what *device* dumps, named as ``divergraph capture`` does; the number of files."""
    folder.mkdir(parents=True)
    names = DumpFileNames(graph, 1)
    written = 0
    for each in graph.inputs:
        if each.name in values:
            write_npy(folder / names.of_input(each.name), values[each.name])
            written += 1
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if op.subgraph or tensor.name in hide or tensor.name not in values:
                continue
            unclear = len(names.unclear)
            path = folder / names.of_output(op, port)
            if len(names.unclear) == unclear and not path.exists():
                write_npy(path, device.dumped(tensor.name, values[tensor.name]))
                written += 1
    if mapping := names.mapping():
        (folder / MAPPING).write_text(mapping, encoding="utf-8")
    return written


def graph_outputs(model: onnx.ModelProto) -> list[str]:
    """The names of the outputs."""
    return [each.name for each in model.graph.output]
