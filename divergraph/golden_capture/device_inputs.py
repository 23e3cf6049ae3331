"""The inputs of a model as a device's dump holds them: a golden run on what the device was fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.inputs.sources import load_dumps, load_graph
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.errors import InputError
from graphstore.model import Tensor

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
    source = load_dumps(run.dump, graph, "device")
    index = source.index
    values: dict[str, Array] = {}
    notes: list[str] = []
    if source.others:
        place = source.path.relative_to(run.dump)
        notes.append(
            f"of {source.others + 1} dumps in {run.dump} that in {place} is taken; name its folder "
            "for another"
        )
    for tensor in inputs:
        name = _name(tensor)
        ref = index.graph_inputs.get(name)
        if ref is None:
            has = any(name in (op.name, *(op.original_names or ())) for op in graph.ops)
            what, where = ("dump does not hold", run.dump) if has else ("graph has no", run.graph)
            raise InputError(
                f"the device's {what} input {tensor.name!r}", where=str(where), hint=_HINT
            )
        value = read_tensor(ref)
        if isinstance(value, Unread):
            raise InputError(f"input {tensor.name!r}: {value.detail}", hint=_HINT)
        values[tensor.name] = _as_golden(value, tensor)
        if value.dtype.kind == "f" and value.dtype.itemsize < values[tensor.name].itemsize:
            notes.append(
                f"{tensor.name} is what {ref.op or 'the dump'} has, rounded to {ref.dtype}"
            )
    return values, tuple(notes)


def held_by_device(tensors: Sequence[Tensor], run: DeviceRun) -> list[str]:
    """The names of those *tensors* that the dump of *run* holds."""
    graph = load_graph(run.graph, None, "device").graph
    index = load_dumps(run.dump, graph, "device").index
    return [tensor.name for tensor in tensors if _name(tensor) in index.graph_inputs]


def _name(tensor: Tensor) -> str:
    return tensor.name.removesuffix(":0")


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
    is_static = shape is not None and None not in shape
    if is_static and value.shape != shape and value.size == np.prod([n or 1 for n in shape or ()]):
        value = value.reshape([n or 1 for n in shape or ()])
    return np.ascontiguousarray(value)
