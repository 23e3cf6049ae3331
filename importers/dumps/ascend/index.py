"""Folders of Ascend dump files: each file's header read and checked, its op found.

Only headers are read here. Which versions there are: :mod:`importers.dumps.ascend.header`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graphstore.model import DumpTensorRef, ModelGraph, Op, TensorIO
from importers.dumps.ascend.file import ScannedFile, described, input_ports, look_at, tensor_ref
from importers.dumps.ascend.overflow import read_overflows, tied
from importers.dumps.ascend.values import HeaderTensor
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpPlace,
    FolderListing,
    Gathering,
    OverflowRecord,
)
from importers.dumps.msprobe.statistics_csv import ENDING, TABLE, StatisticsRow, read_statistics
from importers.dumps.names import (
    BINARY,
    EXCEPTION,
    MAPPING,
    OPDEBUG,
    DumpName,
    OpNames,
    parse_dump_name,
    read_mapping,
)
from importers.dumps.slices import Slicing, join, read_slicing

# A 64-bit hash in place of a too long name; shorter ones are unlikely.
_HASH_DIGITS = 12
_ARRAY = ".npy"


def scan_device_listing(listing: FolderListing, graph: ModelGraph) -> DumpIndex:
    """The tensors of the Ascend dump files directly in a folder, by op of *graph*.

    Of several dumps of one op the latest counts; slices of one op are put together. A
    damaged or unclear file becomes a problem of its op; nothing of the file's tensor
    data is read.
    """
    scan = _Scan(OpNames(graph))
    mapping = read_mapping(listing.folder) if MAPPING in listing.files else {}
    debug_files: list[Path] = []
    for file_name in listing.files:
        path = listing.folder / file_name
        full = mapping.get(file_name, file_name)
        if full.startswith(OPDEBUG):
            debug_files.append(path)
        elif is_device_dump(file_name, mapping):
            scan.add(look_at(path, parse_dump_name(full)))
        elif file_name == TABLE:
            scan.add_table(path)
        elif file_name.endswith(ENDING):
            base = mapping.get(file_name.removesuffix(ENDING), full).removesuffix(ENDING)
            if (name := parse_dump_name(base)) is not None:
                scan.add_table(path, name)
    for file_name, why in listing.others.items():
        if (name := parse_dump_name(file_name.removesuffix(ENDING))) is not None:
            damage = DamagedError(why)
            scan.add(ScannedFile(listing.folder / file_name, name, None, 0, damage))
    return scan.result(tuple(debug_files))


def is_device_dump(file_name: str, mapping: dict[str, str]) -> bool:
    """True for a name the device gives to dump files: full, or a number for a long one."""
    if file_name.endswith((_ARRAY, ENDING)):
        return False  # even where mapping.csv tells a long name: it is a file of another kind
    stem = file_name.removesuffix(BINARY)
    if stem.isascii() and stem.isdigit() and len(stem) >= _HASH_DIGITS:
        return True
    return file_name in mapping or parse_dump_name(file_name) is not None


@dataclass(frozen=True, slots=True)
class _Table:
    """The lines of statistics about one op in one file."""

    path: Path
    timestamp: int
    rows: tuple[StatisticsRow, ...]


class _Scan:
    """Collects files by op, then keeps the latest of each."""

    def __init__(self, names: OpNames) -> None:
        self._names = names
        self._by_op: dict[str, list[ScannedFile]] = {}
        self._tables: dict[str, list[_Table]] = {}
        self._tasks: list[tuple[DumpName, str]] = []
        self._exceptions: list[ScannedFile] = []
        self._gathered = Gathering()
        self._fits: dict[int, Mapping[DumpPlace, str]] = {}
        """What an unclear name fits, by the identity of the tuple that ``names`` keeps of it."""

    def add(self, file: ScannedFile) -> None:
        self._gathered.files += 1
        exact = "" if file.header is None else file.header.op_name
        if file.name is not None and file.name.op_type == EXCEPTION and not exact:
            self._exceptions.append(file)  # found by its task once all tasks are known
            return
        ops = self._names.find(file.name, exact)
        if file.name is not None and file.name.op_type == EXCEPTION:
            self._exceptions.append(file)
        if not ops:
            self._gathered.strange(file.path, file.damage)
        elif len(ops) > 1:
            self._ambiguous(file.path, ops)
        else:
            self._by_op.setdefault(ops[0].id, []).append(file)
            if file.name is not None:
                self._tasks.append((file.name, ops[0].id))

    def add_table(self, path: Path, name: DumpName | None = None) -> None:
        """Take the table of statistics about the op of *name*, or about all ops of a folder."""
        self._gathered.files += 1
        named_ops = self._names.find(name) if name else ()
        try:
            rows = read_statistics(path)
        except DamagedError as damage:
            for op in named_ops or (None,):
                self._gathered.problem(path, damage, None if op is None else op.id)
            return
        by_name: dict[tuple[DumpName, ...], list[StatisticsRow]] = {}
        for row in rows:
            by_name.setdefault((name,) if name else row.names, []).append(row)
        for names, lines in by_name.items():
            ops = next(
                (ops_of_name for name in names if (ops_of_name := self._names.find(name))), ()
            )
            if len(ops) > 1:
                self._ambiguous(path, ops)
            elif ops:
                stamp = names[0].timestamp if names else 0
                self._tables.setdefault(ops[0].id, []).append(_Table(path, stamp, tuple(lines)))
            elif path not in self._gathered.unmatched:
                self._gathered.unmatched.append(path)
        if name and len(named_ops) == 1:
            self._tasks.append((name, named_ops[0].id))

    def _ambiguous(self, path: Path, ops: tuple[Op, ...]) -> None:
        fits = self._fits.get(id(ops))
        if fits is None:
            fits = {(op.id, None, None): f"{op.name} ({op.type})" for op in ops}
            self._fits[id(ops)] = fits
        what = f"the file's name fits {len(ops)} ops and its header names none"
        self._gathered.unclear(path, what, fits)

    def result(self, debug_files: tuple[Path, ...]) -> DumpIndex:
        exceptions = self._failed_tasks()
        for op, files in self._by_op.items():
            self._take(self._names.by_id(op), files)
        for op, tables in self._tables.items():
            self._take_statistics(self._names.by_id(op), tables)
        overflows = tied(self._overflows(debug_files), self._tasks)
        return self._gathered.index(
            debug_files=debug_files, overflows=overflows, exceptions=exceptions
        )

    def _overflows(self, debug_files: Iterable[Path]) -> list[OverflowRecord]:
        overflows: list[OverflowRecord] = []
        for path in debug_files:
            try:
                overflows += read_overflows(path)
            except DamagedError as damage:
                self._gathered.problem(path, damage)
        return overflows

    def _failed_tasks(self) -> tuple[tuple[Path, str | None], ...]:
        """The dumps of exceptions with their ops; they also count as dumps of these."""
        tasks: list[tuple[Path, str | None]] = []
        for file in self._exceptions:
            named = self._names.find(None, file.header.op_name) if file.header else ()
            op = named[0].id if len(named) == 1 else self._op_of_task(file.name)
            tasks.append((file.path, op))
            if op is None:
                self._gathered.strange(file.path, file.damage)
            elif not named:
                self._by_op.setdefault(op, []).append(file)
        return tuple(tasks)

    def _op_of_task(self, name: DumpName | None) -> str | None:
        ops = {
            op
            for dump_name, op in self._tasks
            if name is not None and (dump_name.task, dump_name.stream) == (name.task, name.stream)
        }
        return ops.pop() if len(ops) == 1 else None

    def _take(self, op: Op, files: list[ScannedFile]) -> None:
        """Keep the latest dump; of a task that failed only what no other dump holds, as
        its outputs are whatever lay in their memory."""
        failed = [file for file in files if file.name and file.name.op_type == EXCEPTION]
        others = [file for file in files if file not in failed]
        if others:
            self._take_latest(op, others)
        for file in sorted(failed, key=lambda file: file.timestamp, reverse=True):
            self._take_whole(op, file)

    def _take_latest(self, op: Op, files: list[ScannedFile]) -> None:
        files.sort(key=lambda file: (file.timestamp, file.path.name))
        latest = {file.name.part if file.name else "": file for file in files}
        chosen = set(map(id, latest.values()))
        self._gathered.superseded += [file.path for file in files if id(file) not in chosen]
        unsliced = latest.pop("", None)
        if unsliced is not None and (not latest or unsliced is files[-1]):
            self._gathered.superseded += [file.path for file in latest.values()]
            self._take_whole(op, unsliced)
            return
        if unsliced is not None:
            self._gathered.superseded.append(unsliced.path)
        slices = list(latest.values())
        if len(slices) == 1 and not _is_sliced(slices[0]):
            self._take_whole(op, slices[0])
        else:
            self._take_slices(op, slices)

    def _take_whole(self, op: Op, file: ScannedFile) -> None:
        if file.damage is not None:
            self._gathered.problem(file.path, file.damage, op.id)
            return
        for port, tensor in described(file, op.inputs):
            key = (op.id, tensor.io, port)
            if key not in self._gathered.tensors:  # else the file is that of a failed task
                make = partial(tensor_ref, file, tensor, op.id, port)
                self._gathered.keep(file.path, key, make)

    def _take_slices(self, op: Op, files: list[ScannedFile]) -> None:
        """Put the tensors of an op that ran in slices together."""
        usable: list[tuple[int, ScannedFile]] = []
        for place, file in enumerate(sorted(files, key=_slice_number)):
            if file.damage is not None:
                self._gathered.problem(file.path, file.damage, op.id)
                return
            thread = file.name.thread if file.name is not None else None
            usable.append((place if thread is None else thread, file))
        header = usable[0][1].header
        slicing = None if header is None else read_slicing(header.attributes)
        if len({thread for thread, _ in usable}) < len(usable):
            usable = [(place, file) for place, (_, file) in enumerate(usable)]
        for port, tensor in described(usable[0][1], op.inputs):
            make = partial(_joined, usable, tensor, op, port, slicing)
            self._gathered.keep(usable[0][1].path, (op.id, tensor.io, port), make)

    def _take_statistics(self, op: Op, tables: list[_Table]) -> None:
        latest = self._gathered.latest(tables)
        for row in latest.rows:
            port = _port_of(row, latest.rows, op)
            key = (op.id, row.io, port)
            if key not in self._gathered.tensors:  # values say more than statistics
                self._gathered.tensors[key] = row.ref(latest.path, op.id, port, latest.timestamp)


def _port_of(row: StatisticsRow, rows: tuple[StatisticsRow, ...], op: Op) -> int:
    """The graph's port of a line: optional inputs left open are not numbered."""
    if row.io is not TensorIO.INPUT:
        return row.number
    dumped = 1 + max(other.number for other in rows if other.io is row.io)
    return input_ports(op.inputs, dumped)[row.number]


def _is_sliced(file: ScannedFile) -> bool:
    slicing = None if file.header is None else read_slicing(file.header.attributes)
    return slicing is not None and slicing.count > 1


def _slice_number(file: ScannedFile) -> tuple[int, int]:
    name = file.name
    if name is None:
        return 0, 0
    return name.thread or 0, name.l1_slice or 0


def _joined(
    files: list[tuple[int, ScannedFile]],
    like: HeaderTensor,
    op: Op,
    port: int,
    slicing: Slicing | None,
) -> DumpTensorRef:
    refs: dict[int, DumpTensorRef] = {}
    for index, file in files:
        for tensor in file.whole_header().tensors:
            if (tensor.io, tensor.number) == (like.io, like.number):
                refs[index] = tensor_ref(file, tensor, op.id, port)
        if index not in refs:
            what = f"{file.path.name} has no {like.io} {like.number}, other slices do"
            raise DamagedError(what)
    return join(refs, like.number, slicing)
