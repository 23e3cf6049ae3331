"""The tensors of one file by themselves: shape, type, size of the values, first and worst ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divergraph.dump_diff.value_parts import real_numbers
from divergraph.files.array_files import OutputFolder
from divergraph.metrics.statistics import statistics_of
from divergraph.values.array_types import Array
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import TensorIO, TensorStatistics
from importers.dumps.bare.index import BareTensor, find_tensors
from importers.dumps.contract import NO_FORM, RawForm

_BLOCK = 1 << 20
_NAMED = 8
_DUMPED = re.compile(r"[/.\\ ]")
"""What names of dump files lose."""


@dataclass(frozen=True, slots=True)
class TensorElement:
    """One value and its place."""

    index: tuple[int, ...]
    value: float | int


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor as it is stored. ``first`` are its first values; ``worst`` those that are NaN or
    infinite, then the largest by size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str | None
    statistics: TensorStatistics
    zeros: int
    first: tuple[float | int, ...]
    worst: tuple[TensorElement, ...]


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The tensors of ``path``, the ``written`` text files, and why each other could not be read."""

    path: Path
    tensors: tuple[FileTensor, ...]
    written: tuple[Path, ...]
    unread: tuple[tuple[str, str], ...]


def look_at_file(
    path: Path,
    *,
    form: RawForm = NO_FORM,
    first: int = 10,
    top: int = 10,
    text: Path | None = None,
    name: str | None = None,
) -> TensorFile:
    """What the tensors in a dump or array file are, *first* and *top* values of each, or only of
    the one called *name*.

    With *text* each is also written there as ``<file>.txt``, which ``numpy.loadtxt`` reads.

    Raises:
        InputError: nothing there, a folder without a *name*, no file with a tensor that can be
            read, or none of that name.
    """
    if path.is_dir() and name is None:
        hint = f"`divergraph tensor {path} TENSOR` shows one; `diff` and `dumps` take folders"
        raise InputError("this is a folder", where=str(path), hint=hint)
    bare_tensors = find_tensors(path, form).tensors
    if not bare_tensors:
        raise InputError("there is no tensor in this file", where=str(path))
    if name is not None:
        bare_tensors = (
            _in_folder(bare_tensors, name) if path.is_dir() else [_called(path, bare_tensors, name)]
        )
    folder = None if text is None else OutputFolder(text)
    tensors, unread = [], []
    for tensor in bare_tensors:
        if tensor.ref is None:
            unread.append((tensor.name, tensor.damage or str(tensor.reason)))
            continue
        array = or_raise(read_stored(tensor.ref))
        tensors.append(_described(tensor, array, first, top))
        if folder is not None:
            folder.text(_text_name(path, tensor, alone=len(bare_tensors) == 1), array)
    if not tensors:
        name, why = unread[0]
        none = "" if len(unread) == 1 else f"none of {len(unread)} tensors can be read; "
        raise InputError(f"{none}{name}: {why}", where=str(path))
    return TensorFile(path, tuple(tensors), tuple(folder.written if folder else ()), tuple(unread))


def _in_folder(tensors: Sequence[BareTensor], name: str) -> list[BareTensor]:
    """The tensors *name* in a folder: of several steps or devices there may be several."""
    names: dict[str, list[BareTensor]] = {}
    for tensor in tensors:
        _, _, own = tensor.name.rpartition("/")
        op, io, port = tensor.identity.key
        short = (op, f"{op}:{port}", tensor.model_name) if io is TensorIO.OUTPUT else ()
        for alias in {tensor.name, own, f"{op}:{io}:{port}", *short} - {""}:
            names.setdefault(alias, []).append(tensor)
    wanted = next((alias for alias in (name, _DUMPED.sub("_", name)) if alias in names), None)
    if wanted is None:
        matches = difflib.get_close_matches(name, names)
        hint = "" if matches else "its op's name, OP:PORT, OP:input:PORT, or its file's"
        raise UnknownNameError("tensor in this folder", name, near=matches, hint=hint)
    return names[wanted]


def _called(path: Path, tensors: Sequence[BareTensor], name: str) -> BareTensor:
    """The tensor *name*, as it is printed or as the file has it."""
    names = {_inside(path, tensor): tensor for tensor in tensors}
    names |= {tensor.name: tensor for tensor in tensors}
    if name not in names:
        matches = difflib.get_close_matches(name, names)
        contained = ", ".join([_inside(path, tensor) for tensor in tensors[:_NAMED]])
        hint = "" if matches else f"it has {contained}"
        raise UnknownNameError("tensor in this file", name, near=matches, hint=hint)
    return names[name]


def _inside(path: Path, tensor: BareTensor) -> str:
    """What *tensor* is called inside of its file."""
    return tensor.name.removeprefix(path.name).removeprefix(path.stem).strip("/.:")


def _text_name(path: Path, tensor: BareTensor, *, alone: bool) -> str:
    if alone:
        return f"{path.name}.txt"
    inside = _inside(path, tensor)
    return f"{path.name}.{inside.replace('/', '_').replace(':', '.')}.txt"


def _described(tensor: BareTensor, array: Array, first: int, top: int) -> FileTensor:
    values = real_numbers(array)
    ref = tensor.ref
    assert ref is not None
    dtype = ref.dtype.value if ref.dtype is not None else array.dtype.name
    return FileTensor(
        tensor.name,
        dtype,
        array.shape,
        ref.layout,
        statistics_of(values),
        int(values.size - np.count_nonzero(values)),
        tuple(values.reshape(-1)[:first].tolist()),
        tuple(_worst(values, top)),
    )


def _worst(values: Array, top: int) -> list[TensorElement]:
    """The *top* elements that are not finite, or largest by size, block by block."""
    flat = values.reshape(-1)
    worst_places = np.empty(0, np.int64)
    for start in range(0, flat.size, _BLOCK):
        places = np.concatenate([worst_places, np.arange(start, min(start + _BLOCK, flat.size))])
        size = np.abs(flat[places].astype(np.float64))
        size[np.isnan(size)] = np.inf
        worst_places = places[np.argsort(-size, kind="stable")[:top]]
    return [
        TensorElement(
            tuple(int(at) for at in np.unravel_index(place, values.shape)), flat[place].item()
        )
        for place in worst_places.tolist()
    ]
