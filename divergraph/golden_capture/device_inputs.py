"""The inputs of a model as a device's dump holds them: a golden run on what the device was fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.inputs.sources import load_dumps, load_graph
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.errors import InputError
from graphstore.model import DumpTensorRef, ModelGraph, Op, Tensor, TensorIO, TensorRef
from importers.dumps.index import DumpIndex

_MOVES = frozenset({"Cast", "TransData", "Identity", "Reshape"})
"""Ops that hand a value on as it is, or rounded: what follows them is the input still."""

_HINT = "give --inputs NAME=FILE for it"


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """The graph of a device's model and a dump of it."""

    graph: Path
    dump: Path


def fed_to_device(
    inputs: Sequence[Tensor], run: DeviceRun
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The values of *inputs* in the dump of *run*, and what is worth knowing of them.

    Raises:
        InputError: the dump does not hold one of them, or holds it before a preprocessing.
    """
    graph = load_graph(run.graph, None, "device").graph
    index = load_dumps(run.dump, graph, "device").index
    found: dict[str, Array] = {}
    notes: list[str] = []
    readers = graph.readers()
    for tensor in inputs:
        ref, layout = _place(tensor, graph, index, readers, run)
        value = read_tensor(ref, layout)
        if isinstance(value, Unread):
            raise InputError(f"input {tensor.name!r}: {value.detail}", hint=_HINT)
        found[tensor.name] = _as_golden(value, tensor)
        if value.dtype.kind == "f" and value.dtype.itemsize < found[tensor.name].itemsize:
            notes.append(
                f"{tensor.name} is what {ref.op or 'the dump'} has, rounded to {ref.dtype}"
            )
    return found, tuple(notes)


def held_by_device(tensors: Sequence[Tensor], run: DeviceRun) -> list[str]:
    """The names of those *tensors* that the dump of *run* holds."""
    graph = load_graph(run.graph, None, "device").graph
    index = load_dumps(run.dump, graph, "device").index
    readers = graph.readers()
    entries = ((tensor.name, _entry(graph, tensor)) for tensor in tensors)
    return [
        name
        for name, op in entries
        if op is not None and _dumped(TensorRef(op.id, 0), op, index, readers) is not None
    ]


def _place(
    tensor: Tensor,
    graph: ModelGraph,
    index: DumpIndex,
    readers: Mapping[TensorRef, list[Op]],
    run: DeviceRun,
) -> tuple[DumpTensorRef, str | None]:
    """Where the dump holds *tensor*, and the layout the model has it in."""
    given = index.graph_inputs.get(tensor.name)
    if given is not None:
        return given, None
    op = _entry(graph, tensor)
    ref = None if op is None else _dumped(TensorRef(op.id, 0), op, index, readers)
    if op is None or ref is None:
        what = "graph has no" if op is None else "dump does not hold"
        where = run.graph if op is None else run.dump
        raise InputError(f"the device's {what} input {tensor.name!r}", where=str(where), hint=_HINT)
    return ref, _layout(op)


def _entry(graph: ModelGraph, tensor: Tensor) -> Op | None:
    """The op that brings the input *tensor* in."""
    name = tensor.name.removesuffix(":0")
    named = [op for op in graph.ops if op.name == name and not op.subgraph]
    made = [op for op in graph.ops if name in (op.original_names or ()) and not op.takes]
    return next(iter(named or made), None)


def _dumped(
    ref: TensorRef, op: Op, index: DumpIndex, readers: Mapping[TensorRef, list[Op]]
) -> DumpTensorRef | None:
    """Where the dump holds the output *ref*: itself, an input of what reads it, or the same
    value after an op that moves it."""
    seen: set[str] = set()
    waiting = [(ref, op)]
    while waiting:
        at, maker = waiting.pop(0)
        if maker.id in seen:
            continue
        seen.add(maker.id)
        own = index.tensors.get((at.op, TensorIO.OUTPUT, at.port))
        if own is not None:
            return own
        for reader in readers.get(at, ()):
            for position, given in enumerate(reader.inputs):
                if given is not None and given.producer == at:
                    taken = index.tensors.get((reader.id, TensorIO.INPUT, position))
                    if taken is not None:
                        return taken
            if reader.type in _MOVES:
                waiting.append((TensorRef(reader.id, 0), reader))
    return None


def _layout(op: Op) -> str | None:
    origin = op.outputs[0].origin if op.outputs else None
    return None if origin is None else origin.layout


def _as_golden(value: Array, tensor: Tensor) -> Array:
    wanted = None if tensor.dtype is None else tensor.dtype.numpy
    if wanted is not None and wanted.kind == "f" and value.dtype.kind in "iu":
        raise InputError(
            f"the device takes input {tensor.name!r} as {value.dtype}, the model as {wanted}: it "
            "preprocesses it (AIPP)",
            hint="give what the preprocessing makes of it as --inputs, or convert without AIPP",
        )
    if wanted is not None:
        value = value.astype(wanted)
    shape = tensor.shape
    known = shape is not None and None not in shape
    if known and value.shape != shape and value.size == np.prod([n or 1 for n in shape or ()]):
        value = value.reshape([n or 1 for n in shape or ()])
    return np.ascontiguousarray(value)
