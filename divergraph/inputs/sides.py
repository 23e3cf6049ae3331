"""Whether each side was given what belongs to it: its own graph, its own dump.

Names overlap, so a dump of the other side often fits this side's graph, too, but never as well: ops
the compiler inserted have files of no op there, and element types contradict those the graph
declares. Whichever way leaves fewer such misfits is the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from divergraph.inputs.sources import DumpSource, GraphSource
from graphstore.errors import InputError
from graphstore.model import DumpFormat, GraphKind, ModelGraph, TensorIO
from importers.dumps.folder import model_names
from importers.dumps.index import DumpIndex

Loading = Callable[[str, GraphSource], DumpSource]
"""Reads the dump given for a side (``golden`` or ``device``), resolved against a graph."""

_FEWER = 4
"""Exchanged, the dumps must leave so many times fewer misfits than now, and than tensors that fit:
a few are in every dump."""
_SAID = 3
_CERTAIN = 2
"""So many signs of files and folders decide by themselves."""
_FROM_DEVICES = frozenset({DumpFormat.ASCEND_V1, DumpFormat.ASCEND_V2, DumpFormat.ASCEND_NANO})


@dataclass(frozen=True, slots=True)
class _Fit:
    """How a dump fits a graph: ``tensors`` of its ops, ``strangers`` (files of none of them), and
    tensors of another ``type`` than the graph declares."""

    tensors: int
    strangers: int
    type: int

    @property
    def misfits(self) -> int:
        return self.strangers + self.type


def loaded_dumps(
    golden: GraphSource, device: GraphSource, load: Loading
) -> tuple[DumpSource, DumpSource]:
    """The dumps of both sides.

    Raises:
        InputError: the graphs, the dumps or both are exchanged, or a dump cannot be used.
    """
    crossed = (golden.graph.kind, device.graph.kind) == (GraphKind.DEVICE, GraphKind.ORIGINAL)
    loaded = _loaded(load, "golden", golden), _loaded(load, "device", device)
    error = _exchanged(golden, device, loaded, load)
    if crossed and not any(isinstance(dump, InputError) for dump in loaded):
        raise _both_sides() if error is None else _graphs_only()
    if error is not None:
        raise _graphs_only() if crossed else error
    sources = [dump for dump in loaded if not isinstance(dump, InputError)]
    for dump in loaded:
        if isinstance(dump, InputError):
            raise dump
    return sources[0], sources[1]


def _loaded(load: Loading, side: str, source: GraphSource) -> DumpSource | InputError:
    try:
        return load(side, source)
    except InputError as error:
        return error


def same_dump(golden: DumpSource, device: DumpSource) -> str:
    """What has to be said where one dump was given for both sides; "" where there are two."""
    if golden.path.resolve() != device.path.resolve():
        return ""
    return (
        f"both sides read the same dump ({golden.path}), so nothing of the device was compared: "
        "give the other side its own"
    )


def _exchanged(
    golden: GraphSource,
    device: GraphSource,
    loaded: tuple[DumpSource | InputError, DumpSource | InputError],
    load: Loading,
) -> InputError | None:
    """The error about dumps that fit the other side's graph better; None where they do not.

    A golden dump without a misfit is in its place, whatever the device's is: that may well be named
    after original tensors. But no golden run knows of what a device inserts or of its types.
    """
    before = [
        None if isinstance(dump, InputError) else _fit(dump, source.graph)
        for dump, source in zip(loaded, (golden, device), strict=True)
    ]
    evidence = list(_of_kind(golden, device, loaded))
    if len(evidence) < _CERTAIN and before[0] and not before[0].misfits:
        return None
    other = _loaded(load, "golden", device), _loaded(load, "device", golden)
    if isinstance(other[0], InputError) or isinstance(other[1], InputError):
        return None
    after = _fit(other[0], device.graph), _fit(other[1], golden.graph)
    if not all(fit.tensors > _FEWER * fit.misfits for fit in after):
        return None
    fits = [fit for fit in before if fit is not None]
    if len(fits) == len(before) and len(evidence) < _CERTAIN:
        better = sum(e.misfits for e in after) * _FEWER <= sum(e.misfits for e in fits)
        if not better or sum(e.tensors for e in after) < sum(e.tensors for e in fits):
            return None
    evidence += _of_fit(before)
    reasons = f" ({'; '.join(evidence[:_SAID])})" if evidence else ""
    return InputError(
        f"the dumps are exchanged: each fits the graph of the other side{reasons}",
        where=str(other[0].path),
        hint="exchange --golden-dump and --device-dump",
    )


def _fit(source: DumpSource, graph: ModelGraph) -> _Fit:
    index, ops = source.index, graph.op_index()
    other_type = 0
    for (op, io, port), ref in index.tensors.items():
        outputs = ops[op].outputs
        if io is TensorIO.OUTPUT and port < len(outputs):
            declared = outputs[port].dtype
            other_type += None not in (declared, ref.dtype) and declared is not ref.dtype
    return _Fit(len(index.tensors), len(index.unmatched), other_type)


def _of_kind(
    golden: GraphSource, device: GraphSource, loaded: Sequence[DumpSource | InputError]
) -> Iterator[str]:
    """What files and folders say against the dumps as *loaded*."""
    if isinstance(loaded[0], InputError) or isinstance(loaded[1], InputError):
        return
    sides = golden.graph.kind, device.graph.kind
    of_device = _from_device(loaded[0].index), _from_device(loaded[1].index)
    if sides == (GraphKind.ORIGINAL, GraphKind.DEVICE) and of_device == (True, False):
        yield "--golden-dump holds files as devices write them, --device-dump does not"
    names = model_names(loaded[0].path) if loaded[0].path.is_dir() else []
    if names == [device.graph.name] != [golden.graph.name]:
        yield f"the folder of --golden-dump is named after the device's graph, {names[0]}"


def _from_device(index: DumpIndex) -> bool:
    return any(ref.format in _FROM_DEVICES for ref in index.tensors.values())


def _of_fit(fits: Sequence[_Fit | None]) -> Iterator[str]:
    for side, fit in zip(("golden", "device"), fits, strict=True):
        if fit is None:
            yield f"--{side}-dump cannot be the dump of --{side}"
            continue
        if fit.strangers:
            yield f"{fit.strangers} files of --{side}-dump belong to no op of --{side}"
        if fit.type:
            yield f"{fit.type} tensors of --{side}-dump are of another type than --{side} declares"


def _both_sides() -> InputError:
    return InputError(
        "the sides are exchanged: --golden is the graph of a device, --device an original model",
        hint="exchange --golden with --device, and --golden-dump with --device-dump",
    )


def _graphs_only() -> InputError:
    return InputError(
        "the graphs are exchanged: --golden is the graph of a device, --device an original model, "
        "and each dump fits the graph of the other side",
        hint="exchange --golden and --device, and leave the dumps as they are",
    )
