"""Names of Ascend dump files, and the ops of a graph they stand for.

The device writes ``{op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}`` with ``.``,
``/``, ``\\`` and space of type and name as ``_``. That loses information, so a name is
never turned back: the ops of the graph are written the same way and looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from graphstore.model import Framework, ModelGraph, Op
from importers.dumps.index import DamagedError, open_dump
from importers.source import read_at

_WRITTEN = str.maketrans(dict.fromkeys("./\\ ", "_"))
_SLICE = re.compile(r"_lxslice(\d{1,9})")
_GROUP_PREFIX = re.compile(r"_sgt_graph_\d+_")
NO_ID = 65535
"""Stands for "none" where the device writes a context or thread id."""
_LEAST_MICROSECONDS = 10**12

OPDEBUG = "Opdebug."
EXCEPTION = "exception_info"
BINARY = ".bin"
MAPPING = "mapping.csv"
CAPTURED = "capture.json"
"""What ``divergraph capture`` says of its dump, in the dump's folder."""
_MAX_MAPPING = 100 << 20
_MAX_CAPTURED = 100 << 20


_NUMBER = re.compile(r"([0-9]{1,18})")


def counted(name: str) -> tuple[str | int, ...]:
    """A key that sorts names as people count: step 5 before step 10."""
    return tuple(int(part) if at % 2 else part for at, part in enumerate(_NUMBER.split(name)))


def written(name: str) -> str:
    """An op's type or name as it appears in a device dump file's name."""
    return name.translate(_WRITTEN)


@dataclass(frozen=True, slots=True)
class DumpName:
    """The parts of a device dump file's name; type and name as written.

    ``timestamp`` is in microseconds. ``part`` tells apart the slices of an op that ran
    in several (FFTS+ threads, L1 slices); it is empty for a whole op. ``context`` and
    ``thread`` are those of FFTS+ tasks, ``l1_slice`` the number of an L1 slice.
    """

    op_type: str
    op_name: str
    task: int
    stream: int | None
    timestamp: int
    part: str = ""
    context: int | None = None
    thread: int | None = None
    l1_slice: int | None = None


def parse_dump_name(name: str) -> DumpName | None:
    """The parts of a dump file's *name*, or None if it is no such name.

    Accepts the form without stream id, the FFTS+ suffix
    ``.{task type}.{context}.{thread}.{device}`` and the ending ``.bin``. Dots inside the
    op's name are taken as part of it. A dump of an exception,
    ``exception_info.{stream}.{task}.{time}``, has no op name.
    """
    parts = name.removesuffix(BINARY).split(".")
    if parts[0] == EXCEPTION:
        return _exception_name(parts)
    numbers = 0
    while numbers < len(parts) - 2 and is_number(parts[-1 - numbers]):
        numbers += 1
    if numbers < 2:
        return None
    tail = [int(part) for part in parts[len(parts) - numbers :]]
    stamp_at = _timestamp_at(tail)
    has_stream = stamp_at > 1
    # Further numbers before task and stream can only be of a name left with its dots.
    spare = max(stamp_at - 2, 0)
    op_type, op_name = parts[0], "_".join(parts[1 : len(parts) - numbers + spare])
    if not op_type or not op_name:
        return None
    # {task type}.{context}.{thread}.{device}
    suffix = tail[stamp_at + 1 :]
    ids = suffix[-3:-1] if len(suffix) > 2 else (NO_ID, NO_ID)
    context, thread = (None if number == NO_ID else number for number in ids)
    match = _SLICE.search(op_name)
    l1_slice = int(match.group(1)) if match else None
    marks = (("thread", thread), ("slice", l1_slice))
    return DumpName(
        op_type,
        op_name,
        tail[spare],
        tail[spare + 1] if has_stream else None,
        tail[stamp_at],
        ", ".join(f"{mark} {number}" for mark, number in marks if number is not None),
        context,
        thread,
        l1_slice,
    )


def _exception_name(parts: list[str]) -> DumpName | None:
    if len(parts) != 4 or not all(map(is_number, parts[1:])):
        return None
    stream, task, timestamp = map(int, parts[1:])
    return DumpName(EXCEPTION, "", task, stream, timestamp)


def _timestamp_at(numbers: list[int]) -> int:
    """Which of the numbers is the time: no other is as large."""
    largest = max(range(1, len(numbers)), key=numbers.__getitem__)
    if numbers[largest] >= _LEAST_MICROSECONDS:
        return largest
    return 2 if len(numbers) == 3 or (len(numbers) > 3 and numbers[2] > numbers[1]) else 1


def is_number(text: str) -> bool:
    """True for a number of a name, in digits that are plainly such."""
    return text.isascii() and text.isdigit() and len(text) <= 255


class OpNames:
    """The ops of a graph by exact name and by the name in device dump files."""

    def __init__(self, graph: ModelGraph) -> None:
        self._exact: dict[str, list[Op]] = {}
        self._written: dict[str, list[Op]] = {}
        self._by_id = {op.id: op for op in graph.ops}
        for op in graph.ops:
            self._exact.setdefault(op.name, []).append(op)
            self._written.setdefault(written(op.name), []).append(op)
        self._unscoped = _unscoped(graph)
        self._unclear: dict[tuple[str, str, str], tuple[Op, ...]] = {}

    def find(self, name: DumpName | None, exact_name: str = "") -> tuple[Op, ...]:
        """The ops a dump can belong to: one if it is clear, none if no op fits.

        *exact_name* is the op name in the file's header, if there is one; it wins over
        the file's name. The op type breaks ties only. Dumps of one unclear name get one tuple:
        thousands of files may fit thousands of ops each.
        """
        question = (
            ("", "", exact_name) if name is None else (name.op_type, name.op_name, exact_name)
        )
        ops = self._unclear.get(question)
        if ops is not None:
            return ops
        found: Iterable[Op] = self._exact.get(exact_name, ()) if exact_name else ()
        if not found and name is not None:
            found = self._by_written(name.op_name)
        candidates = tuple(found)
        if len(candidates) > 1 and name is not None:
            same_type = tuple(op for op in candidates if written(op.type) == name.op_type)
            candidates = same_type or candidates
        if len(candidates) > 1:
            self._unclear[question] = candidates
        return candidates

    def by_id(self, op_id: str) -> Op:
        """The op of this id."""
        return self._by_id[op_id]

    def _by_written(self, op_name: str) -> list[Op]:
        bare = _SLICE.sub("", op_name)
        for form in (op_name, bare, _GROUP_PREFIX.sub("", bare)):
            # Names from mapping.csv may not be written the file's way yet.
            if ops := self._written.get(form) or self._written.get(written(form)):
                return ops
        return self._unscoped.get(bare, [])


def _unscoped(graph: ModelGraph) -> dict[str, list[Op]]:
    """MindSpore's ops without their scope: its kernels on Ascend are dumped so."""
    ops: dict[str, list[Op]] = {}
    if graph.framework is Framework.MINDSPORE:
        for op in graph.ops:
            ops.setdefault(written(op.name.rpartition("/")[2]), []).append(op)
    return ops


def read_mapping(folder: Path) -> dict[str, str]:
    """The long names of *folder*: hash or short name to the name it stands for.

    Too long file names are replaced by a number, told in ``mapping.csv`` as lines
    ``number,name``. Lines without a comma are passed over. Unreadable: as if absent,
    since the headers may still tell the ops. Names on either side are only compared with
    names in the folder, so no path is ever made of them.
    """
    try:
        with open_dump(folder / MAPPING) as (fd, size):
            data = read_at(fd, min(size, _MAX_MAPPING), 0)
    except DamagedError:
        return {}
    text = data.decode("utf-8", "replace")
    # Not splitlines: names may hold the rarer marks that it takes for ends of lines.
    pairs = (line.partition(",") for line in text.split("\n"))
    return {short.strip(): full.strip() for short, comma, full in pairs if comma}


def captured_names(folder: Path) -> dict[str, str]:
    """What the model calls the tensors that a capture wrote to *folder*, by file.

    Empty where nothing says so, as in captures of earlier versions: then the files' own names,
    which are those of ops, are all there is.
    """
    try:
        with open_dump(folder / CAPTURED) as (fd, size):
            manifest = json.loads(read_at(fd, min(size, _MAX_CAPTURED), 0))
        return {str(file): str(tensor) for tensor, file in manifest["files"].items()}
    except (DamagedError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
