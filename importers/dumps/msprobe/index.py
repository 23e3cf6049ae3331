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
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.model import DumpFormat, DumpTensorRef, ModelGraph, Op, TensorIO, TensorStatistics
from importers.contract import Confidence
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.arrays.torch_file import ENDING as TORCH
from importers.dumps.arrays.torch_file import read_torch
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor
from importers.dumps.contract import DumpChoice, DumpReader, FoundDump
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    FolderListing,
    Gathering,
    TensorKey,
    is_inside,
    list_folder,
    of_no_op,
    open_dump,
    shown,
)
from importers.dumps.msprobe.entries import gradients_in_order
from importers.nesting import json_fault
from importers.number_formats import CHECKSUMS, named_dtype
from importers.source import read_at

DUMP = "dump.json"
DEBUG = "debug.json"
"""What ``PrecisionDebugger.save`` writes in place of a ``dump.json``: variables by name."""

TENSORS = "dump_tensor_data"
_NPY = ".npy"
_PROCESS = re.compile(r"proc\d+")
_MAX_BYTES = 256 << 20
_MAX_DEPTH = 32
_SECTIONS: dict[TensorIO, tuple[str, ...]] = {
    TensorIO.INPUT: ("input_args", "input_kwargs", "input"),
    TensorIO.OUTPUT: ("output",),
}
Entry: TypeAlias = Mapping[str, Any]


def sole_process(folder: Path) -> bool:
    """Whether *folder* is the ``proc{pid}`` of the only process of a step, which another run's
    only process, of another id, stands for."""
    if not _PROCESS.fullmatch(folder.name):
        return False
    try:
        with os.scandir(folder.parent) as entries:
            return sum(_PROCESS.fullmatch(entry.name) is not None for entry in entries) == 1
    except OSError:
        return False


def described_by(names: Collection[str]) -> str:
    """Which of the files *names* of a folder describes its dump; empty without one."""
    return next((name for name in (DUMP, DEBUG) if name in names), "")


def read_dump_json(path: Path) -> dict[str, Entry]:
    """The calls of a ``dump.json`` by name, in the order they ran.

    Raises:
        DamagedError: no such file or no such JSON; says at which byte.
    """
    with open_dump(path) as (fd, size):
        if size > _MAX_BYTES:
            raise _bad(f"{size} bytes, more than {_MAX_BYTES}", 0)
        raw = read_at(fd, size, 0)
    try:
        content = json.loads(raw)
    except json.JSONDecodeError as error:
        raise _bad(json_fault(error), error.pos) from None
    except (RecursionError, ValueError) as error:
        raise _bad(json_fault(error), 0) from None
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise _bad("it has no table of calls named data", 0)
    # a variable of debug.json may be a list of tensors
    return {
        name: entry if isinstance(entry, dict) else {"output": entry}
        for name, entry in data.items()
        if isinstance(entry, dict | list)
    }


def read_call(path: Path, name: str) -> Entry | None:
    """One call of a ``dump.json``, of which no other is read; None if it is not there.

    Raises:
        DamagedError: no such file, or no JSON there.
    """
    with open_dump(path) as (fd, size):
        if size > _MAX_BYTES:
            raise _bad(f"{size} bytes, more than {_MAX_BYTES}", 0)
        text = read_at(fd, size, 0).decode(errors="replace")
    place = re.search(rf"{re.escape(json.dumps(name))}\s*:\s*(?=\{{)", text)
    if place is None:
        return None
    try:
        entry, _ = json.JSONDecoder().raw_decode(text, place.end())
    except (ValueError, RecursionError) as error:
        raise _bad(json_fault(error), place.end()) from None
    return entry if isinstance(entry, dict) else None


def tensors_of(name: str, entry: Entry, io: TensorIO) -> Iterator[Entry]:
    """The tensors of the inputs or outputs of the call *name* in order; what is no tensor is left
    out and does not count. The gradients of parameters are outputs."""
    if not any(section in entry for names in _SECTIONS.values() for section in names):
        if io is TensorIO.OUTPUT:
            yield from _leaves(gradients_in_order(name, entry), _MAX_DEPTH)
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
    for key, leaf in _keyed(call, entry):
        ref, damages = _tensor_ref(path, key, leaf)
        yield key[1], key[2], ref or damages[-1][1]


def _keyed(op: str, entry: Entry) -> Iterator[tuple[TensorKey, Entry]]:
    for io in TensorIO:
        for port, leaf in enumerate(tensors_of(op, entry, io)):
            yield (op, io, port), leaf


def _weights(op: Op, entry: Entry) -> Iterator[tuple[TensorKey, Entry]]:
    """The parameters of a module's call: the graph has them as inputs, after the call's own."""
    parameters = entry.get("parameters")
    if not isinstance(parameters, dict):
        return
    begin = f"{op.name}.parameters."
    for port, ref in enumerate(op.inputs):
        if ref is not None and ref.tensor.startswith(begin):
            leaf = parameters.get(ref.tensor.removeprefix(begin))
            if isinstance(leaf, dict) and "dtype" in leaf:
                yield (op.id, TensorIO.INPUT, port), leaf


def _tensor_ref(
    path: Path, key: TensorKey, leaf: Entry
) -> tuple[DumpTensorRef | None, list[tuple[Path, DamagedError]]]:
    """The tensor, by its values or else its statistics; and what is wrong with which file."""
    try:
        ref = _statistics_ref(path, key, leaf)
    except DamagedError as damage:
        return None, [(path, damage)]
    damages: list[tuple[Path, DamagedError]] = []
    stored = leaf.get("data_name")
    if isinstance(stored, str) and stored:
        file = path
        try:
            file = _inside(path.parent / TENSORS, stored)
            return _file_ref(file, ref), []
        except DamagedError as damage:
            damages.append((file, damage))
    if ref.statistics is not None and _says_something(ref.statistics):
        return ref, damages
    if not damages:
        damages.append((path, DamagedError("neither values nor statistics of this tensor")))
    return None, damages


def scan_msprobe(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of one rank's dump by op of *graph*, named as the calls are.

    Raises:
        DamagedError: the folder has no readable ``dump.json``.
    """
    path = folder / (DUMP if (folder / DUMP).is_file() else DEBUG)
    entries = read_dump_json(path)
    ops = {op.name: op for op in reversed(graph.ops)} | {op.id: op for op in graph.ops}
    gathered = Gathering()
    gathered.files = len(entries)
    for name, entry in entries.items():
        op = ops.get(name)
        gather_tensors(gathered, path, () if op is None else tensors_of_op(op, entry))
    missing = [name for name in entries if name not in ops]
    return gathered.index(notes=(of_no_op(missing, "call"),) if missing else ())


def tensors_of_op(op: Op, entry: Entry) -> Iterator[tuple[TensorKey, Entry]]:
    """The tensors of the call that is *op*, with those of its parameters."""
    yield from _keyed(op.id, entry)
    yield from _weights(op, entry)


def gather_tensors(
    gathered: Gathering, path: Path, tensors: Iterable[tuple[TensorKey, Entry]]
) -> None:
    """Put *tensors* of the ``dump.json`` at *path* into what is *gathered*, and what is wrong."""
    for key, leaf in tensors:
        ref, damages = _tensor_ref(path, key, leaf)
        if ref is not None:
            gathered.tensors[key] = ref
        for file, damage in damages:
            gathered.problem(file, damage, *key)


def _inside(folder: Path, name: str) -> Path:
    """The file *name* in *folder*; a name with a path in it is refused."""
    if name in (".", "..") or any(mark in name for mark in "/\\\0"):
        what = f"data_name {name[:60]!r} is a path; only names of files next to it are read"
        raise DamagedError(what)
    path = folder / name
    if not is_inside(str(path), os.path.realpath(folder.parent)):
        raise DamagedError("a link that leads out of the dump folder")
    return path


def _statistics_ref(path: Path, key: TensorKey, leaf: Entry) -> DumpTensorRef:
    op, io, port = key
    shape = leaf.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) > 64
        or not all(type(size) is int and 0 <= size < 1 << 62 for size in shape)
    ):
        raise DamagedError(f"shape {str(shape)[:60]} is not a list of sizes")
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
            checksum=_checksum(leaf),
        ),
    )


def _checksum(leaf: Entry) -> str:
    """``md5:1f3a``: of all bytes, whichever of them the mode of the dump wrote."""
    for kind in CHECKSUMS:
        value = leaf.get(kind)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return f"{kind}:{value}"
    return ""


def _real(value: object) -> float | None:
    if not isinstance(value, bool | int | float | str):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def _says_something(statistics: TensorStatistics) -> bool:
    known = (statistics.maximum, statistics.minimum, statistics.mean, statistics.norm)
    return statistics.checksum != "" or any(value is not None for value in known)


def _file_ref(path: Path, ref: DumpTensorRef) -> DumpTensorRef:
    """*ref* with the values in the file at *path*."""
    key = (ref.op, ref.io, ref.port)
    with open_dump(path) as (fd, size):
        if path.suffix == TORCH:
            return read_torch(fd, size).ref(path, key)
        if path.suffix != _NPY:
            what = f"a file of type {shown(path.suffix) or 'unknown'}; .pt and .npy are read"
            raise DamagedError(what)
        return read_npy_header(fd, size).ref(path, key, ref.dtype)


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"{DUMP} is damaged: {what}", offset=at)


class MsprobeReader(DumpReader):
    """Folders of one rank and step, which a file describes."""

    name = "msprobe"
    reads = "folders with msprobe's dump.json"
    whole_folder = True
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """The file that describes the folder."""
        return Confidence.SURE if name in (DUMP, DEBUG) else Confidence.NO

    def owns(self, listing: FolderListing) -> bool:
        """A described folder."""
        return bool(described_by(listing.files))

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """By the file that describes it."""
        if described := described_by(listing.files):
            reason = f"{described} names the tensors"
            yield FoundDump(listing.folder, self.name, Confidence.SURE, reason, 1)

    def lists(self, name: str, folder: str) -> bool:
        """The folder is listed as a whole."""
        return False

    def folder_tensors(self, folder: Path, below: str) -> Iterator[BareTensor]:
        """One tensor for each input and output of each call."""
        scope = below.replace(folder.name, "rank0") if sole_process(folder) else below
        path = folder / (DUMP if (folder / DUMP).is_file() else DEBUG)
        for call, entry in read_dump_json(path).items():
            for io, port, found in call_tensors(path, call, entry):
                name = f"{call}.{io}.{port}"
                identity = Identity(scope, "", call, io, port)
                yield found_tensor(f"{below}/{name}" if below else name, path, found, identity)

    def value_files(self, listing: FolderListing) -> Iterable[Path]:
        """All in the folder of tensors."""
        folder = listing.folder / TENSORS
        return [folder / name for name in list_folder(folder).files]

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """The tensors by op."""
        return scan_msprobe(listing.folder, graph)
