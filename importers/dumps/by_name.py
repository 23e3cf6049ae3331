"""The tensors of named files by op of a graph: what a reader gets that says nothing of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import InputError
from graphstore.model import DumpTensorRef, ModelGraph, Reason, Tensor, TensorIO
from importers.dumps.arrays.golden_names import GoldenNames, modules_of
from importers.dumps.bare.tensor import BareTensor
from importers.dumps.decode import stored_bytes
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    Gathering,
    TensorKey,
    of_no_op,
    or_damage,
    shown,
)

if TYPE_CHECKING:
    from importers.dumps.contract import DumpChoice, DumpReader
    from importers.dumps.index import FolderListing

_GRAPH_INPUT: TensorKey = ("", TensorIO.OUTPUT, 0)


class TensorNames:
    """Where in a graph the tensors are that dumps name: the name itself, then as lossy writers
    have it."""

    def __init__(self, graph: ModelGraph) -> None:
        self._tensors: dict[str, tuple[TensorKey, Tensor]] = {}
        for op in graph.ops:
            for port, tensor in enumerate(op.outputs):
                if tensor.name and (not op.subgraph or tensor.name not in self._tensors):
                    self._tensors[tensor.name] = (op.id, TensorIO.OUTPUT, port), tensor
            for module in modules_of(op) if op.outputs else ():
                self._tensors.setdefault(module, ((op.id, TensorIO.OUTPUT, 0), op.outputs[0]))
        self._inputs = {tensor.name: tensor for tensor in graph.inputs}
        self._ops = {op.name: op for op in reversed(graph.ops)}
        self._lossy = GoldenNames(graph)

    def find(self, name: str, tensor: BareTensor) -> tuple[TensorKey | None, Tensor | None]:
        """The place of the tensor *name*, and what the graph says of it; no place and a tensor for
        an input of the graph, neither where nothing is called so.

        Raises:
            LookupError: several have it.
        """
        if tensor.port is not None:
            return self._of_op(name, tensor.identity.io, tensor.port)
        if name in self._tensors:
            return self._tensors[name]
        if name in self._inputs:
            return None, self._inputs[name]
        hits = self._lossy.find(name)
        if len(hits) > 1:
            raise LookupError(", ".join(f"{hit.op.name}:{hit.port}" for hit in hits[:20]))
        if hits:
            op, port = hits[0].op, hits[0].port
            declared = op.outputs[port] if port < len(op.outputs) else None
            return (op.id, TensorIO.OUTPUT, port), declared
        graph_input = self._lossy.find_input(name)
        return None, None if graph_input is None else graph_input[0]

    def _of_op(self, name: str, io: TensorIO, port: int) -> tuple[TensorKey | None, Tensor | None]:
        op = self._ops.get(name)
        if op is None:
            hits = self._lossy.find(f"{name}.{port}")
            op = hits[0].op if len(hits) == 1 else None
        if op is None:
            return None, None
        outputs = op.outputs if io is TensorIO.OUTPUT else ()
        return (op.id, io, port), outputs[port] if port < len(outputs) else None


@dataclass(frozen=True, slots=True)
class _Dated:
    path: Path
    timestamp: int
    ref: DumpTensorRef | DamagedError


def scan_by_name(
    reader: DumpReader, listing: FolderListing, graph: ModelGraph, choice: DumpChoice
) -> DumpIndex:
    """The tensors that *reader* lists in the files of a folder, by op of *graph*.

    Of several ranks and steps those of the *choice* are taken, else the lowest. Of several dumps
    of one tensor the latest counts. A damaged file is a problem of its own.

    Raises:
        InputError: no such rank or step.
    """
    from importers.dumps.contract import NO_FORM, FilePlace

    gathered = Gathering()
    tensors: list[BareTensor] = []
    for name in reader.files_in(listing):
        path = listing.folder / name
        gathered.files += 1
        try:
            place = FilePlace(path, name, "", path.stat().st_size)
            tensors += reader.tensors(place, NO_FORM)
        except DamagedError as damage:
            gathered.problem(path, damage)
    notes: list[str] = []
    for level in ("rank", "step"):
        tensors, note = _at(tensors, level, getattr(choice, level), listing.folder)
        notes += note
    index, strangers = index_of(tensors, graph, gathered, reader)
    if strangers:
        notes.append(of_no_op(strangers, "tensor"))
    return replace(index, notes=tuple(notes))


def _at(
    tensors: list[BareTensor], level: str, wanted: int | None, where: Path
) -> tuple[list[BareTensor], list[str]]:
    """Those of one rank or step, and a remark where there was a choice."""
    values = sorted({n for tensor in tensors if (n := getattr(tensor, level)) is not None})
    if not values:
        return tensors, []
    if wanted is not None and wanted not in values:
        listed = ", ".join(map(str, values[:8]))
        hint = f"--{level} is one of {listed}"
        raise InputError(f"no {level} {wanted} in this dump", where=str(where), hint=hint)
    chosen = values[0] if wanted is None else wanted
    note = (
        [f"{level} {chosen} is taken, one of {len(values)} (--{level})"] if len(values) > 1 else []
    )
    return [tensor for tensor in tensors if getattr(tensor, level) in (None, chosen)], note


def index_of(
    tensors: Collection[BareTensor], graph: ModelGraph, gathered: Gathering, reader: DumpReader
) -> tuple[DumpIndex, list[str]]:
    """The *tensors* of *reader* by op of *graph*, added to what was *gathered* of their files; and
    the names of those of no op in files that hold more. A file of one such tensor is one of no op.
    """
    names = TensorNames(graph)
    in_file = Counter(tensor.path for tensor in tensors)
    by_key: dict[TensorKey | str, list[_Dated]] = {}

    def take(tensor: BareTensor, name: str, *, anew: bool = True) -> bool:
        try:
            key, declared = names.find(name, tensor)
        except LookupError as several:
            damage = DamagedError(f"the name {shown(name)} fits {several}", Reason.AMBIGUOUS_DUMP)
            gathered.problem(tensor.path, damage)
            return True
        if key is None and declared is None:
            return False
        place = key or (declared.name if declared is not None else "")
        if anew or place not in by_key:
            ref = or_damage(partial(_resolved, tensor, key or _GRAPH_INPUT, declared))
            by_key.setdefault(place, []).append(_Dated(tensor.path, tensor.timestamp, ref))
        return True

    unknown = [tensor for tensor in tensors if not take(tensor, tensor.model_name)]
    strangers: list[str] = []
    for tensor in unknown:
        others = reader.other_names(tensor.model_name)
        if any(take(tensor, name, anew=False) for name in others):
            continue
        if in_file[tensor.path] == 1:
            gathered.strange(tensor.path, None)
        else:
            strangers.append(tensor.model_name)
    for place, group in by_key.items():
        latest = gathered.latest(group)
        if isinstance(latest.ref, DamagedError):
            gathered.problem(latest.path, latest.ref, *(() if isinstance(place, str) else place))
        elif isinstance(place, str):
            gathered.graph_inputs[place] = latest.ref
        else:
            gathered.tensors[place] = latest.ref
    return gathered.index(), strangers


def _resolved(tensor: BareTensor, key: TensorKey, declared: Tensor | None) -> DumpTensorRef:
    """Where the values of *tensor* lie, as the tensor *key* of the graph.

    Raises:
        DamagedError: nowhere, or nothing tells their shape.
    """
    if tensor.ref is None:
        assert tensor.reason is not None
        raise DamagedError(f"tensor {shown(tensor.model_name)}: {tensor.damage}", tensor.reason)
    op, io, port = key
    return _with_shape(replace(tensor.ref, op=op, io=io, port=port), declared)


def _with_shape(ref: DumpTensorRef, declared: Tensor | None) -> DumpTensorRef:
    """*ref* with the shape its graph has *declared*, if its file tells none; in the file its second
    axis lies last where the writer is known for that.

    Raises:
        DamagedError: the graph does not tell it either, or the file has another size.
    """
    if ref.shape is not None or ref.dtype is None:
        return ref
    sizes = None if declared is None else declared.shape
    if sizes is None or sizes.count(None) > 1:
        raise DamagedError("the file tells no shape, and the graph none either")
    shape = list(sizes)
    one = stored_bytes(ref.dtype, prod(size for size in shape if size is not None))
    if None in shape:
        shape[shape.index(None)] = ref.nbytes // one if one else 0
    sized = tuple(size for size in shape if size is not None)
    needed = stored_bytes(ref.dtype, prod(sized))
    if needed != ref.nbytes:
        what = f"{list(sized)} of {ref.dtype}, as the graph has it, takes {needed} bytes"
        raise DamagedError(f"{what}, the file has {ref.nbytes}")
    rank = len(sized)
    axes = (0, *range(2, rank), 1) if ref.axes_assumed and rank > 2 else ()
    return replace(ref, shape=sized, axes=axes, axes_assumed=bool(axes))
