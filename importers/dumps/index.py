"""What a scan of a dump folder gives: tensors by op, and what could not be used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from graphstore.errors import InputError
from graphstore.model import DumpTensorRef, Reason, TensorIO

TensorKey: TypeAlias = tuple[str, TensorIO, int]
"""Op id, input or output, port."""
DumpPlace: TypeAlias = tuple[str, TensorIO | None, int | None]
"""The same, or an op as a whole."""
_MOST_NAMED = 20
_MOST_PAIRS = 10_000
"""Pairs of a file and what its name fits that are noted: of all there may be millions."""


@dataclass(frozen=True, slots=True)
class DumpProblem:
    """A dump file, or one tensor of it, that cannot be used.

    ``op`` is None if the file could not be given to an op; ``io`` and ``port`` are None
    if the whole file is meant. ``detail`` names the byte offset where there is one.
    """

    path: Path
    op: str | None
    io: TensorIO | None
    port: int | None
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class DumpIndex:
    """Everything found in one dump folder.

    ``tensors`` holds the latest dump of each tensor. ``graph_inputs`` holds dumps of
    graph inputs that are no ops, by input name. ``unmatched`` are dump files of no op
    of the graph, ``superseded`` older dumps of an op or tensor that has a later one,
    ``debug_files`` the device's overflow records. ``files`` counts the dump files seen.
    All sequences are in file-name order but ``overflows``, what the debug files say with
    the op of each, earliest first, and ``exceptions``, the dumps of failed tasks with
    their op or None. ``notes`` are remarks for the user.
    """

    tensors: Mapping[TensorKey, DumpTensorRef] = field(default_factory=dict)
    problems: tuple[DumpProblem, ...] = ()
    unmatched: tuple[Path, ...] = ()
    files: int = 0
    graph_inputs: Mapping[str, DumpTensorRef] = field(default_factory=dict)
    superseded: tuple[Path, ...] = ()
    debug_files: tuple[Path, ...] = ()
    overflows: tuple[OverflowRecord, ...] = ()
    exceptions: tuple[tuple[Path, str | None], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OverflowRecord:
    """One overflow the device noticed while an op ran, from one debug file.

    ``unit`` is what noticed it (``AI Core``, ``L2 Atomic Add``, ``AIC``, ``SDMA``, ...).
    ``stream``, ``task``, ``context`` and ``thread`` are the task's that overflowed, the
    last two None where it has none. ``status`` is the raw status word, ``causes`` its
    bits in words. ``fields`` holds every number of the record by its name. ``op`` is the
    op whose dump has this task, None if there is none.
    """

    path: Path
    timestamp: int
    unit: str
    stream: int
    task: int
    status: int
    causes: tuple[str, ...]
    context: int | None = None
    thread: int | None = None
    fields: Mapping[str, int] = field(default_factory=dict)
    op: str | None = None

    def text(self) -> str:
        """One phrase for people, e.g. ``AI Core: float32 to float16 (status 0x100)``."""
        causes = ", ".join(self.causes) or "overflow"
        return f"{self.unit}: {causes} (status {self.status:#x})"


class DamagedError(Exception):
    """A dump file or tensor cannot be used; turned into a :class:`DumpProblem`."""

    def __init__(
        self, detail: str, reason: Reason = Reason.UNREADABLE_DUMP, *, offset: int | None = None
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail if offset is None else f"at byte {offset}: {detail}"


class _Dated(Protocol):
    """A file a scan found, and when it was written, in microseconds; 0 if nothing tells."""

    @property
    def path(self) -> Path: ...
    @property
    def timestamp(self) -> int: ...


_AnyDated = TypeVar("_AnyDated", bound=_Dated)


class Gathering:
    """What a scan finds, on its way to a :class:`DumpIndex`."""

    def __init__(self) -> None:
        self.tensors: dict[TensorKey, DumpTensorRef] = {}
        self.graph_inputs: dict[str, DumpTensorRef] = {}
        self.problems: list[DumpProblem] = []
        self.unmatched: list[Path] = []
        self.superseded: list[Path] = []
        self.files = 0
        self._unclear: set[DumpPlace] = set()
        self._pairs = 0
        self._noted: dict[int, Mapping[DumpPlace, str]] = {}
        """What was noted whole, by its identity."""

    def problem(
        self,
        path: Path,
        damage: DamagedError,
        op: str | None = None,
        io: TensorIO | None = None,
        port: int | None = None,
    ) -> None:
        """Note that a file, or one tensor of it, cannot be used."""
        self.problems.append(DumpProblem(path, op or None, io, port, damage.reason, damage.detail))

    def unclear(self, path: Path, what: str, fits: Mapping[DumpPlace, str]) -> None:
        """Note that a file's name *fits* several tensors or ops, given with their names.

        Where many files fit many ops, each op is noted with one of them: all pairs are more than
        memory holds.
        """
        names = list(islice(fits.values(), _MOST_NAMED))
        more = f" and {len(fits) - len(names)} more" if len(fits) > len(names) else ""
        damage = DamagedError(f"{what}: {', '.join(names)}{more}", Reason.AMBIGUOUS_DUMP)
        has_room = self._pairs + len(fits) <= _MOST_PAIRS
        noted: list[DumpPlace] = []
        if has_room or id(fits) not in self._noted:
            noted = [place for place in fits if has_room or place not in self._unclear]
            self._noted[id(fits)] = fits
        self._unclear.update(noted)
        self._pairs += len(noted)
        for place in noted:
            self.problem(path, damage, *place)
        if not noted:
            self.problem(path, damage)

    def strange(self, path: Path, damage: DamagedError | None) -> None:
        """Note a file that fits no op: as a problem if it is damaged, too."""
        if damage is None:
            self.unmatched.append(path)
        else:
            self.problem(path, damage)

    def usable(
        self, path: Path, key: TensorKey, make: Callable[[], DumpTensorRef]
    ) -> DumpTensorRef | None:
        """What *make* gives, or None and a problem of *key*."""
        try:
            return make()
        except DamagedError as damage:
            self.problem(path, damage, *key)
            return None

    def keep(self, path: Path, key: TensorKey, make: Callable[[], DumpTensorRef]) -> None:
        """Keep what *make* gives as the tensor *key*."""
        if (ref := self.usable(path, key, make)) is not None:
            self.tensors[key] = ref

    def latest(self, files: list[_AnyDated]) -> _AnyDated:
        """The latest of the files of one tensor; the others are superseded."""
        files.sort(key=lambda file: (file.timestamp, file.path.name))
        last = files[-1]
        self.superseded += [file.path for file in files[:-1] if file.path != last.path]
        return last

    def index(self, **more: Any) -> DumpIndex:
        """All of it, in order, and *more* fields of the index."""
        return DumpIndex(
            tensors=self.tensors,
            problems=tuple(
                sorted(self.problems, key=lambda problem: (problem.path, problem.op or ""))
            ),
            unmatched=tuple(sorted(self.unmatched)),
            files=self.files,
            graph_inputs=self.graph_inputs,
            superseded=tuple(sorted(self.superseded)),
            **more,
        )


def or_damage(make: Callable[[], DumpTensorRef]) -> DumpTensorRef | DamagedError:
    """What *make* gives, or why it cannot."""
    try:
        return make()
    except DamagedError as damage:
        return damage


def of_no_op(names: list[str], what: str) -> str:
    """A remark on the *names* of a dump, each that of a *what*, that no op has."""
    belong = f"{what} belongs" if len(names) == 1 else f"{what}s belong"
    return f"{len(names)} {belong} to no op ({', '.join(map(shown, names[:3]))})"


# Not waiting for a writer matters only for a pipe put in the file's place.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_dump(path: Path) -> Iterator[tuple[int, int]]:
    """A file descriptor for reading and the file's size in bytes.

    Raises:
        DamagedError: it cannot be opened or read, or is not a regular file.
    """
    try:
        fd = os.open(path, OPEN_FLAGS)
    except OSError as error:
        raise _unreadable(error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("this is not a regular file")
        yield fd, status.st_size
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        os.close(fd)


def _unreadable(error: OSError) -> DamagedError:
    return DamagedError(f"the file cannot be read: {error.strerror}")


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The names in a folder, sorted: files, and why each other thing is not read."""

    folder: Path
    files: tuple[str, ...]
    others: Mapping[str, str]


def list_folder(folder: Path) -> FolderListing:
    """The names directly in *folder*. A link that leads out of it is no file of it.

    Raises:
        InputError: the folder is missing, no folder, or may not be read.
    """
    files: list[str] = []
    others: dict[str, str] = {}
    home = ""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not _is_file(entry):
                    others[entry.name] = "this is not a regular file"
                    continue
                if entry.is_symlink():
                    home = home or os.path.realpath(folder)
                    if not is_inside(entry.path, home):
                        others[entry.name] = "a link that leads out of the dump folder"
                        continue
                files.append(entry.name)
    except OSError as error:
        raise InputError(
            f"the dump folder cannot be read: {error.strerror}", where=str(folder)
        ) from error
    return FolderListing(folder, tuple(sorted(files)), dict(sorted(others.items())))


def is_inside(path: str, home: str) -> bool:
    """True if *path*, links followed, lies in the folder *home* (itself without links)."""
    return os.path.realpath(path).startswith(home.rstrip(os.sep) + os.sep)


def shown(name: str) -> str:
    """A name out of a file as messages print it: in one line, and not endless."""
    short = name if len(name) <= 120 else f"{name[:117]}..."
    return short if short.isprintable() else repr(short)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def merged(indexes: Iterable[DumpIndex]) -> DumpIndex:
    """Several indexes of one folder as one. A tensor found twice counts by its later
    time, values before statistics."""
    tensors: dict[TensorKey, DumpTensorRef] = {}
    graph_inputs: dict[str, DumpTensorRef] = {}
    parts = list(indexes)
    for part in parts:
        graph_inputs |= part.graph_inputs
        for key, ref in part.tensors.items():
            other = tensors.get(key)
            if other is None or _rank(ref) >= _rank(other):
                tensors[key] = ref
    gathered = Gathering()
    gathered.tensors, gathered.graph_inputs = tensors, graph_inputs
    gathered.files = sum(part.files for part in parts)
    for part in parts:
        gathered.problems += part.problems
        gathered.unmatched += part.unmatched
        gathered.superseded += part.superseded
    overflows = [overflow for part in parts for overflow in part.overflows]
    return gathered.index(
        debug_files=tuple(path for part in parts for path in part.debug_files),
        overflows=tuple(sorted(overflows, key=attrgetter("timestamp"))),
        exceptions=tuple(failed for part in parts for failed in part.exceptions),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _rank(ref: DumpTensorRef) -> tuple[bool, int]:
    return ref.statistics is None, ref.timestamp
