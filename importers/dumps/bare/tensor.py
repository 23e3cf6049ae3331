"""One dumped tensor as its file's name describes it, without a graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.dumps.index import DamagedError
from importers.dumps.names import DumpName, parse_dump_name

NPY = ".npy"
_TIME = re.compile(r"\d{14}")
_GOLDEN = re.compile(r"(?P<op>.+)\.(?P<port>\d{1,6})\.(?P<time>\d{10,20})")
_CONVERTED = re.compile(
    r"(?P<dump>.+)\.(?P<io>input|output)\.(?P<port>\d{1,6})(?:\.(?P<shape>\d+(?:[_x]\d+)*))?"
    r"(?:\.(?P<dtype>[a-z]+\d+))?(?:\.(?P<layout>[A-Z]\w*))?"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which tensor of a model this is, as far as the name tells: characters that dump
    names lose are ``_``. ``scope`` is the folder without levels that are a time only."""

    scope: str
    type: str
    op: str
    io: TensorIO
    port: int
    part: str = ""

    @property
    def key(self) -> tuple[str, TensorIO, int]:
        """The tensor's place in the model."""
        return self.op, self.io, self.port


@dataclass(slots=True, eq=False)
class BareTensor:
    """One tensor as found. ``name`` is its file below the folder given, without ending,
    and the tensor in it; ``place`` is the file, ``model_name`` what its model calls it, where
    something says so: files are called after ops. A tensor with a ``reason`` cannot be read,
    ``damage`` says more.

    Of ten thousand ``.npy`` files all but the name is made when asked for, and they are
    opened once, when they are read: until then their shape is not known.
    """

    name: str
    place: str
    _ref: DumpTensorRef | None = None
    reason: Reason | None = None
    damage: str = ""
    _told: tuple[Identity, int] | None = None
    _file: tuple[str, str] = ("", "")
    """Folder and stem, of which the identity is told."""
    _npy: tuple[int, DType | None] = (0, None)
    """Of a ``.npy`` file its size, and what the user says its elements are."""
    model_name: str = ""
    iteration: str = ""
    """What its file calls the inference it is of, where it may hold several."""
    rank: int | None = None
    step: int | None = None
    port: int | None = None
    """The port of the op *model_name*; None where that is a tensor's own name."""

    @property
    def path(self) -> Path:
        """The file it is in."""
        return Path(self.place) if self._ref is None else self._ref.path

    @property
    def ref(self) -> DumpTensorRef | None:
        """The reference for reading it; None if there is a ``reason``."""
        if self._ref is None and self.reason is None:
            self._ref = npy_ref(self.place, *self._npy)
        return self._ref

    @property
    def is_plain(self) -> bool:
        """True for a ``.npy`` file that was not opened and of which the user said nothing."""
        return self._ref is None and self.reason is None and self._npy[1] is None

    @property
    def nbytes(self) -> int:
        """Bytes read for it, as far as known."""
        return self._npy[0] if self._ref is None else self._ref.nbytes

    @property
    def identity(self) -> Identity:
        """Which tensor of a model it is."""
        return self._looked_at()[0]

    @property
    def op_type(self) -> str:
        """The type of its op; empty if the name does not show it."""
        if self._told is None and not _is_converted(self._file[1]):
            return ""
        return self.identity.type

    @property
    def timestamp(self) -> int:
        """When it was dumped as its name tells, 0 if it does not."""
        return self._looked_at()[1]

    def _looked_at(self) -> tuple[Identity, int]:
        if self._told is None:
            self._told = identity_of(*self._file)
        return self._told


def found_tensor(
    name: str,
    path: Path,
    ref: DumpTensorRef | DamagedError,
    identity: Identity,
    time: int = 0,
    model_name: str = "",
) -> BareTensor:
    """The tensor *name* in the file at *path* as *ref* says, at *time* and under the
    *model_name* as far as known."""
    identity_and_time = (identity, time)
    if isinstance(ref, DamagedError):
        reason, detail = ref.reason, ref.detail
        return BareTensor(
            name, str(path), None, reason, detail, identity_and_time, model_name=model_name
        )
    return BareTensor(name, str(ref.path), ref, _told=identity_and_time, model_name=model_name)


def npy_tensor(
    path: str, file: str, folder: str, size: int, raw_type: DType | None = None
) -> BareTensor:
    """The tensor of the ``.npy`` file at *path*, named *file* below *folder*. *raw_type* is the
    type of elements numpy has no name for."""
    stem = file[: -len(NPY)]
    name = f"{folder}/{stem}" if folder else stem
    # Whatever is in it is read with the values: opening a file twice doubles its cost.
    return BareTensor(name, path, None, None, "", None, (folder, stem), (size, raw_type))


def npy_ref(path: str, size: int, raw_type: DType | None = None) -> DumpTensorRef:
    """What it takes to read the ``.npy`` file of *size* bytes at *path*; the rest its header
    tells. *raw_type* is the type of elements numpy has no name for."""
    npy, output = DumpFormat.NPY, TensorIO.OUTPUT
    return DumpTensorRef(Path(path), npy, "", output, 0, raw_type, None, 0, size)


def scope_of(folder: str) -> str:
    """The folder without levels that are a time only."""
    return "/".join(part for part in folder.split("/") if not _TIME.fullmatch(part))


def identity_of(folder: str, stem: str) -> tuple[Identity, int]:
    """What a file's name tells of its one tensor, and the time in it."""
    scope = scope_of(folder)
    match = _CONVERTED.fullmatch(stem) if _is_converted(stem) else None
    if match and (name := parse_dump_name(match["dump"])):
        return _of_dump_name(scope, name, TensorIO(match["io"]), int(match["port"]))
    if match := _GOLDEN.fullmatch(stem):
        op, time = plain(match["op"]), int(match["time"])
        return Identity(scope, "", op, TensorIO.OUTPUT, int(match["port"])), time
    op, dot, port = stem.rpartition(".")
    if dot and port.isdecimal() and len(port) <= 6:
        return Identity(scope, "", plain(op), TensorIO.OUTPUT, int(port)), 0
    return Identity(scope, "", plain(stem), TensorIO.OUTPUT, 0), 0


def _is_converted(stem: str) -> bool:
    """True if it may be the name of an array out of a dump file; others tell no op type."""
    return ".output." in stem or ".input." in stem


def _of_dump_name(scope: str, name: DumpName, io: TensorIO, port: int) -> tuple[Identity, int]:
    op = plain(name.op_name)
    return Identity(scope, name.op_type, op, io, port, name.part), name.timestamp


_LOST = str.maketrans(dict.fromkeys("./\\ :", "_"))


def plain(name: str) -> str:
    """The name with what dump names lose as ``_``."""
    return name.translate(_LOST)
