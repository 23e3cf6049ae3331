"""The parts of a model that was compared with nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from math import prod

from divergraph.execute.contract import Array
from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.inputs.kept_paths import with_folder
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.rootcause.run_inputs import RunSources
from divergraph.submodel.run_graphs import no_device
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import TensorFacts
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.contract import RunData
from graphstore.model import (
    Counts,
    DumpTensorRef,
    LineageLink,
    Method,
    ModelGraph,
    Run,
    TensorIO,
    TensorMatch,
    TensorRef,
    Verdict,
)
from importers.dumps.index import DumpIndex


def uncompared_parts(model: GraphSource, dump: DumpSource | None) -> RunParts:
    """What the run of *model* alone has: its own tensors, if there is a *dump*; no device."""
    paths = {"golden": str(model.path)}
    if dump is not None:
        paths["golden_dump"] = str(dump.path)
    data = _uncompared(model, no_device(model.graph), paths)
    index = DumpIndex() if dump is None else dump.index
    return RunParts(data, RunSources(model.path, model.path, index, DumpIndex(), ()))


def parts_with_device_values(
    model: GraphSource, device: GraphSource, dump: DumpSource
) -> DeviceValueParts:
    """The parts of *model*, of whose tensors the *device* alone has values: its *dump*."""
    lineage = link_graphs(model.graph, device.graph)
    paths = {"golden": model.path, "device": device.path, "device_dump": dump.path}
    paths_text = {name: str(path) for name, path in paths.items()}
    data = _uncompared(model, device.graph, paths_text, lineage.links)
    sources = RunSources(model.path, device.path, DumpIndex(), dump.index, ())
    return DeviceValueParts(data, sources, lineage)


class DeviceValueParts(RunParts):
    """Parts whose inputs and outputs are those that the device dumped."""

    def __init__(self, data: RunData, sources: RunSources, lineage: Lineage) -> None:
        super().__init__(data, sources)
        self._dumped = dict(_dumped_for(data.device, lineage, sources.device_dump))

    @cached_property
    def selector(self) -> Selector:
        """Cuts the golden graph; what the device dumped is taken for dumped."""
        return Selector(self.golden, self._facts)

    def device_value(self, key: TensorRef | str) -> Array | None:
        """The device's value of the golden tensor *key*, or of the model's input."""
        ref = self._found(key)
        value = None if ref is None else read_tensor(ref)
        if value is None or isinstance(value, Unread):
            return None
        shape = self._shape(key)
        return value.reshape(shape) if shape and prod(shape) == value.size else value

    def _facts(self, key: TensorRef | str) -> TensorFacts:
        ref = self._found(key)
        if ref is None:
            return TensorFacts()
        shape = ref.original_shape or ref.shape
        graph_shape = self._shape(key)
        if graph_shape and (shape is None or prod(graph_shape) == prod(shape)):
            shape = graph_shape
        return TensorFacts(ref.dtype, shape, dumped=True)

    def _found(self, key: TensorRef | str) -> DumpTensorRef | None:
        if isinstance(key, str):
            return self.sources.device_dump.graph_inputs.get(key)
        return self._dumped.get(key)

    def _shape(self, key: TensorRef | str) -> tuple[int, ...] | None:
        """The shape that the golden graph gives a tensor, if it gives all of it."""
        if isinstance(key, str):
            tensor = next((tensor for tensor in self.golden.inputs if tensor.name == key), None)
        else:
            outputs = self.golden.op_index()[key.op].outputs
            tensor = outputs[key.port] if key.port < len(outputs) else None
        if tensor is None or tensor.shape is None:
            return None
        sizes = tuple(size for size in tensor.shape if size is not None)
        return sizes if len(sizes) == len(tensor.shape) else None


def _dumped_for(
    device: ModelGraph, lineage: Lineage, dump: DumpIndex
) -> list[tuple[TensorRef, DumpTensorRef]]:
    """The dump of each golden tensor; an op's output goes before what another one read of it."""
    read, outputs = [], []
    for op in device.ops:
        for at in range(len(op.inputs)):
            match = lineage.input_match(op, at)
            dumped = dump.tensors.get((op.id, TensorIO.INPUT, at))
            if isinstance(match, TensorMatch) and match.reorder is None and dumped is not None:
                read.append((match.golden, dumped))
        for ref in op.makes:
            match = lineage.outputs.get(ref)
            dumped = dump.tensors.get((op.id, TensorIO.OUTPUT, ref.port))
            if isinstance(match, TensorMatch) and match.reorder is None and dumped is not None:
                outputs.append((match.golden, dumped))
    return [*read, *outputs]


def _uncompared(
    model: GraphSource,
    device: ModelGraph,
    paths: dict[str, str],
    links: tuple[LineageLink, ...] = (),
) -> RunData:
    graph = model.graph
    run = Run(
        graph.name or model.path.stem,
        graph.id,
        device.id,
        datetime.now(UTC).isoformat(timespec="milliseconds"),
        Verdict.NOT_COMPARED,
        Method.THRESHOLDS,
        Counts(0, 0, 0, 0, 0),
        {},
        with_folder(paths),
    )
    return RunData(run, graph, device, links, (), {}, ())
