"""The oracle for a device whose model is an ONNX file: its own ops are cut out and run here.

What stands for a part lies between the device's tensors that stand for the part's boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.submodel.minimize.oracle import OracleOptions
from divergraph.submodel.minimize.part_values import NoValueError, RunningOracle
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import InputError
from graphstore.model import DType, Framework, ModelGraph, TensorRef
from importers.registry import read_graph


class DeviceModel(RunningOracle):
    """Runs the device model's own ops in place of a part; *argument* is its file.

    With an empty argument it is the device model of the run.

    Raises:
        InputError: it is no ONNX model.
        ExecutionError: ONNX Runtime refuses it.
    """

    def __init__(self, parts: RunParts, argument: str, options: OracleOptions) -> None:
        self._path = Path(argument) if argument else parts.sources.device_path
        super().__init__(parts, options.factor)
        same = self._path.resolve() == parts.sources.device_path.resolve()
        self._graph = parts.device if same else read_graph(self._path)
        if self._graph.framework is not Framework.ONNX:
            raise InputError(
                f"this is a {self._graph.framework} model; the oracle runs ONNX models",
                where=str(self._path),
                hint="--oracle evidence runs nothing; --oracle command runs a program of yours",
            )
        status = self._path.stat()
        self.identity = f"device-model {self._path.resolve()} {status.st_size} {status.st_mtime_ns}"
        self.identity += f" x{self._factor:g}"
        self._executor = open_executor(self._path, self._graph)
        self._known = dict(_types(self._graph))
        self._called = self._names(use_run=self._graph.id == parts.device.id)

    def run(self, part: Selection, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the device's own ops make."""
        values = {
            self._name(tensor): self._fed(tensor, feeds[tensor.name]) for tensor in part.inputs
        }
        wanted = {tensor.name: self._name(tensor) for tensor in part.outputs}
        subgraph = RunnableSubgraph("part", tuple(values), tuple(dict.fromkeys(wanted.values())))
        with self._lock:
            (result,) = self._executor.run_subgraphs([subgraph], lambda _: values)
        if result.failure:
            raise NoValueError(f"the device's ops do not run alone: {result.failure}")
        return {name: result.values[called] for name, called in wanted.items()}

    def _name(self, tensor: BoundaryTensor) -> str:
        called = self._called.get(tensor.key)
        if called is None:
            raise NoValueError(f"no tensor of the device's model stands for {tensor.name}")
        return called

    def _fed(self, tensor: BoundaryTensor, value: Array) -> Array:
        dtype = self._known.get(self._name(tensor))
        wanted = None if dtype is None else dtype.numpy
        if wanted is None or value.dtype == wanted:
            return value
        with np.errstate(over="ignore"):
            return value.astype(wanted)

    def _names(self, *, use_run: bool) -> dict[TensorRef | str, str]:
        """The device's tensor for each golden one: as it was compared, else of its name."""
        own = set(self._known)
        names: dict[TensorRef | str, str] = {
            ref: tensor.name
            for op in self._parts.golden.ops
            for ref, tensor in zip(op.makes, op.outputs, strict=True)
            if tensor.name in own
        }
        names |= {tensor.name: tensor.name for tensor in self._parts.golden.inputs}
        if use_run:
            ops = self._graph.op_index()
            for golden, device in self._parts.matched_outputs.items():
                names[golden] = ops[device.op].outputs[device.port].name
        return names

    def close(self) -> None:
        """Let go of both models."""
        self._executor.close()
        super().close()


def _types(graph: ModelGraph) -> Iterator[tuple[str, DType | None]]:
    for tensor in graph.inputs:
        yield tensor.name, tensor.dtype
    for op in graph.ops:
        for tensor in op.outputs:
            yield tensor.name, tensor.dtype
