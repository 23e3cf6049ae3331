"""Dumps of msprobe (PyTorch, MindSpore): ``dump.json`` and the tensors beside it.

``data`` names every call, e.g. ``Module.conv1.Conv2d.forward.0``, with its tensors: type,
shape, ``Max``, ``Min``, ``Mean``, ``Norm``; in tensor mode ``data_name`` is a file of the
folder ``dump_tensor_data``. The paths a dump.json holds are of another machine and not
followed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.model import (
    DumpFormat,
    DumpTensorRef,
    ModelGraph,
    Op,
    Reason,
    TensorIO,
    TensorStatistics,
)
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.arrays.torch_file import ENDING as TORCH
from importers.dumps.arrays.torch_file import read_torch
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpProblem,
    TensorKey,
    is_inside,
    shown,
)
from importers.dumps.number_formats import named_dtype
from importers.dumps.open_file import open_dump

DUMP = "dump.json"
TENSORS = "dump_tensor_data"
_NPY = ".npy"
_MAX_BYTES = 256 << 20
_MAX_DEPTH = 32
_SECTIONS: dict[TensorIO, tuple[str, ...]] = {
    TensorIO.INPUT: ("input_args", "input_kwargs", "input"),
    TensorIO.OUTPUT: ("output",),
}
Entry: TypeAlias = Mapping[str, Any]


def read_dump_json(path: Path) -> dict[str, Entry]:
    """The calls of a ``dump.json`` by name, in the order they ran.

    Raises:
        DamagedError: no such file or no such JSON; says at which byte.
    """
    with open_dump(path) as (fd, size):
        if size > _MAX_BYTES:
            raise _bad(f"{size} bytes, more than {_MAX_BYTES}", 0)
        raw = os.pread(fd, size, 0)
    try:
        content = json.loads(raw)
    except json.JSONDecodeError as error:
        raise _bad(error.msg, error.pos) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _bad(str(error) or "nested too deep", 0) from None
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise _bad("it has no table of calls named data", 0)
    return {name: entry for name, entry in data.items() if isinstance(entry, dict)}


def tensors_of(entry: Entry, io: TensorIO) -> Iterator[Entry]:
    """The tensors of one call's inputs or outputs in order; what is no tensor is left
    out and does not count. The gradients of parameters are outputs."""
    if not any(name in entry for names in _SECTIONS.values() for name in names):
        if io is TensorIO.OUTPUT:
            yield from _leaves(entry, _MAX_DEPTH)
        return
    for section in _SECTIONS[io]:
        yield from _leaves(entry.get(section), _MAX_DEPTH)


def _leaves(value: Any, depth: int) -> Iterator[Entry]:
    if isinstance(value, dict) and "type" in value:
        if isinstance(value.get("shape"), list) and "dtype" in value:
            yield value
    elif depth and isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner, depth - 1)


def call_tensors(
    path: Path, call: str, entry: Entry
) -> Iterator[tuple[TensorIO, int, DumpTensorRef | DamagedError]]:
    """The tensors of one call of the ``dump.json`` at *path*: values, else statistics, else
    why neither can be used."""
    for io in TensorIO:
        for port, leaf in enumerate(tensors_of(entry, io)):
            try:
                yield io, port, _tensor_ref(path, (call, io, port), leaf)
            except DamagedError as damage:
                yield io, port, damage


def _tensor_ref(path: Path, key: TensorKey, leaf: Entry) -> DumpTensorRef:
    ref = _statistics_ref(path, key, leaf)
    known = ref.statistics is not None and _says_something(ref.statistics)
    stored = leaf.get("data_name")
    if isinstance(stored, str) and stored:
        try:
            return _file_ref(_inside(path.parent / TENSORS, stored), ref)
        except DamagedError:
            if not known:
                raise
    if not known:
        what = "neither values nor statistics of this tensor"
        raise DamagedError(Reason.UNREADABLE_DUMP, what)
    return ref


def scan_msprobe(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of one rank's dump by op of *graph*, named as the calls are.

    Raises:
        DamagedError: the folder has no readable ``dump.json``.
    """
    path = folder / DUMP
    entries = read_dump_json(path)
    scan = _Scan(path, graph)
    for name, entry in entries.items():
        scan.add(name, entry)
    return scan.result(len(entries))


class _Scan:
    def __init__(self, path: Path, graph: ModelGraph) -> None:
        self._path = path
        self._folder = path.parent / TENSORS
        self._ops: dict[str, Op] = {}
        for op in graph.ops:
            self._ops.setdefault(op.name, op)
        self._ops |= {op.id: op for op in graph.ops}
        self._tensors: dict[TensorKey, DumpTensorRef] = {}
        self._problems: list[DumpProblem] = []
        self._missing: list[str] = []

    def add(self, name: str, entry: Entry) -> None:
        op = self._ops.get(name)
        if op is None:
            self._missing.append(name)
            return
        for io in TensorIO:
            for port, leaf in enumerate(tensors_of(entry, io)):
                self._take((op.id, io, port), leaf)

    def _take(self, key: TensorKey, leaf: Entry) -> None:
        op, io, port = key
        path = self._path
        try:
            ref = _statistics_ref(self._path, key, leaf)
        except DamagedError as damage:
            self._problems.append(DumpProblem(path, op, io, port, damage.reason, damage.detail))
            return
        stored = leaf.get("data_name")
        if isinstance(stored, str) and stored:
            try:
                path = _inside(self._folder, stored)
                ref = _file_ref(path, ref)
            except DamagedError as damage:
                problem = DumpProblem(path, op, io, port, damage.reason, damage.detail)
                self._problems.append(problem)
        if ref.statistics is None or _says_something(ref.statistics):
            self._tensors[key] = ref
        elif not stored:
            what = "neither values nor statistics of this tensor"
            self._problems.append(DumpProblem(path, op, io, port, Reason.UNREADABLE_DUMP, what))

    def result(self, files: int) -> DumpIndex:
        notes: tuple[str, ...] = ()
        if self._missing:
            listed = ", ".join(map(shown, self._missing[:3]))
            belong = "call belongs" if len(self._missing) == 1 else "calls belong"
            notes = (f"{len(self._missing)} {belong} to no op ({listed})",)
        return DumpIndex(
            tensors=self._tensors,
            problems=tuple(self._problems),
            files=files,
            notes=notes,
        )


def _inside(folder: Path, name: str) -> Path:
    """The file *name* in *folder*; a name with a path in it is refused."""
    if name in (".", "..") or any(mark in name for mark in "/\\\0"):
        what = f"data_name {name[:60]!r} is a path; only names of files beside it are read"
        raise DamagedError(Reason.UNREADABLE_DUMP, what)
    path = folder / name
    if not is_inside(str(path), os.path.realpath(folder.parent)):
        raise DamagedError(Reason.UNREADABLE_DUMP, "a link that leads out of the dump folder")
    return path


def _statistics_ref(path: Path, key: TensorKey, leaf: Entry) -> DumpTensorRef:
    op, io, port = key
    shape = leaf.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) > 64
        or not all(type(size) is int and 0 <= size < 1 << 62 for size in shape)
    ):
        raise DamagedError(Reason.UNREADABLE_DUMP, f"shape {str(shape)[:60]} is no list of sizes")
    return DumpTensorRef(
        path=path,
        format=DumpFormat.STATISTICS,
        op=op,
        io=io,
        port=port,
        dtype=named_dtype(str(leaf.get("dtype"))),
        shape=tuple(shape),
        statistics=TensorStatistics(
            count=math.prod(shape),
            maximum=_real(leaf.get("Max")),
            minimum=_real(leaf.get("Min")),
            mean=_real(leaf.get("Mean")),
            norm=_real(leaf.get("Norm")),
        ),
    )


def _real(value: object) -> float | None:
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _says_something(statistics: TensorStatistics) -> bool:
    known = (statistics.maximum, statistics.minimum, statistics.mean, statistics.norm)
    return any(value is not None for value in known)


def _file_ref(path: Path, ref: DumpTensorRef) -> DumpTensorRef:
    """*ref* with the values in the file at *path*."""
    with open_dump(path) as (fd, size):
        if path.suffix == TORCH:
            tensor = read_torch(fd, size)
            return replace(
                ref,
                path=path,
                format=DumpFormat.TORCH,
                dtype=tensor.dtype,
                shape=tensor.shape,
                offset=tensor.offset,
                nbytes=tensor.nbytes,
                statistics=None,
            )
        if path.suffix != _NPY:
            what = f"a file of type {shown(path.suffix) or 'unknown'}; .pt and .npy are read"
            raise DamagedError(Reason.UNREADABLE_DUMP, what)
        header = read_npy_header(fd, size)
    return replace(
        ref,
        path=path,
        format=DumpFormat.NPY,
        dtype=header.element_type(ref.dtype),
        shape=header.shape,
        offset=header.data_offset,
        nbytes=header.nbytes,
        statistics=None,
    )


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(Reason.UNREADABLE_DUMP, f"{DUMP} is damaged: {what}", offset=at)
