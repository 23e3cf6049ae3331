"""Dumped tensors without a graph: what files and folders hold, by their names alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from graphstore.errors import InputError
from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.dumps.decode import can_decode, stored_bytes
from importers.dumps.index import DamagedError, is_inside
from importers.dumps.names import EXCEPTION, MAPPING, OPDEBUG, DumpName, parse_dump_name
from importers.dumps.openfile import open_dump

NPY, NPZ, JSON = ".npy", ".npz", ".json"
_TORCH = (".pt", ".pth")
_RAW = ".bin"
_HASH = re.compile(r"\d{12,}")
_TIME = re.compile(r"\d{14}")
_GOLDEN = re.compile(r"(?P<op>.+)\.(?P<port>\d{1,6})\.(?P<time>\d{10,20})")
_CONVERTED = re.compile(
    r"(?P<dump>.+)\.(?P<io>input|output)\.(?P<port>\d{1,6})(?:\.(?P<shape>\d+(?:[_x]\d+)*))?"
    r"(?:\.(?P<dtype>[a-z]+\d+))?(?:\.(?P<layout>[A-Z]\w*))?"
)
_EVENT = re.compile(r"(?P<name>.+)_(?P<slot>\d{1,6})_DebugIdentity_(?P<time>\d{1,20})")
_TOLD_RAW = re.compile(r".+\.(?P<shape>\d+(?:_\d+)*)\.(?P<dtype>[a-z]+\d+)\.(?P<layout>[A-Z]\w*)")
_MAX_DEPTH = 32
_MAX_FILES = 5_000_000


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


@dataclass(slots=True, eq=False)
class BareTensor:
    """One tensor as found. ``name`` is its file below the folder given, without ending,
    and the tensor in it. ``ref`` has no shape for ``.npy`` files: they are opened once,
    when they are read. ``damage`` says why there is no ``ref``."""

    name: str
    path: Path
    ref: DumpTensorRef | None
    reason: Reason | None = None
    damage: str = ""
    _told: tuple[Identity, int] | None = None
    _file: tuple[str, str] = ("", "")
    """Folder and stem; most names need no closer look, so it is taken when asked for."""

    @property
    def identity(self) -> Identity:
        """Which tensor of a model it is."""
        return self._looked_at()[0]

    @property
    def op_type(self) -> str:
        """The type of its op, empty where the name does not tell."""
        if self._told is None and not _is_converted(self._file[1]):
            return ""
        return self.identity.type

    @property
    def timestamp(self) -> int:
        """When it was dumped as its name tells, 0 if it does not."""
        return self._looked_at()[1]

    def _looked_at(self) -> tuple[Identity, int]:
        if self._told is None:
            self._told = _identity(*self._file)
        return self._told


@dataclass(frozen=True, slots=True)
class RawForm:
    """What the user says of files that do not tell: element type, and shape or None for
    one axis of all elements."""

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None


NO_FORM = RawForm()


@dataclass(slots=True)
class BareDump:
    """Everything found at one path; ``passed_over`` counts files of no known kind, with a
    few of their names."""

    path: Path
    tensors: list[BareTensor] = field(default_factory=list)
    passed_over: int = 0
    examples: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_tensors(path: Path, form: RawForm = NO_FORM) -> BareDump:
    """The tensors of a file, or of all files in a folder and below it, in name order.

    Links that lead out of a folder are not followed; hidden files are passed over.

    Raises:
        InputError: nothing there, not readable, or a file of no known kind.
    """
    dump = BareDump(path)
    if path.is_dir():
        _Walk(dump, form).folder(path, "", 0)
        return dump
    try:
        status = path.stat()
    except OSError as error:
        what = "no such file or folder" if not path.exists() else f"not readable: {error.strerror}"
        raise InputError(what, where=str(path)) from error
    finder = _kind(path.name, path, form)
    if finder is None:
        raise InputError(
            "this is no file with tensors",
            where=str(path),
            hint="of raw values say --dtype and --shape; docs/diff.md lists what is read",
        )
    _add(dump, finder, _Place(path, path.name, "", status.st_size))
    return dump


@dataclass(frozen=True, slots=True)
class _Place:
    """A file: its name without folder (the long one behind a number), folder and size."""

    path: Path
    file: str
    folder: str
    size: int

    @property
    def scope(self) -> str:
        return _scope(self.folder)

    def below(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name


_Finder = Callable[[_Place], Iterator[BareTensor]]


class _Walk:
    def __init__(self, dump: BareDump, form: RawForm) -> None:
        self._dump = dump
        self._form = form
        self._home = os.path.realpath(dump.path)
        self._files = 0

    def folder(self, folder: Path, below: str, depth: int) -> None:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise InputError(
                    f"the folder cannot be read: {error.strerror}", where=str(folder)
                ) from error
            self._dump.notes.append(f"{folder} cannot be read: {error.strerror}")
            return
        names = {entry.name for entry in found}
        if "dump.json" in names and self._msprobe(folder, below):
            return
        mapping: dict[str, str] = {}
        if MAPPING in names:
            from importers.dumps.names import read_mapping

            mapping = read_mapping(folder)
        for entry in found:
            if entry.name.startswith(".") or not self._is_ours(entry):
                continue
            inner = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir():
                if depth < _MAX_DEPTH:
                    self.folder(Path(entry.path), inner, depth + 1)
            elif entry.is_file():
                self._file(entry, mapping.get(entry.name, entry.name), below)

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        return not entry.is_symlink() or is_inside(entry.path, self._home)

    def _file(self, entry: os.DirEntry[str], file: str, below: str) -> None:
        self._files += 1
        if self._files > _MAX_FILES:
            raise InputError(f"more than {_MAX_FILES} files", where=str(self._dump.path))
        if file.endswith(NPY):  # dumps of many thousands of files are of these
            self._dump.tensors.append(
                _of_npy(Path(entry.path), file, below, _size(entry), self._form)
            )
            return
        path = Path(entry.path)
        finder = _kind(file, path, self._form)
        if finder is None:
            self._dump.passed_over += 1
            if len(self._dump.examples) < 3:
                self._dump.examples.append(entry.name)
            return
        _add(self._dump, finder, _Place(path, file, below, _size(entry)))

    def _msprobe(self, folder: Path, below: str) -> bool:
        from importers.dumps.bare_msprobe import msprobe_tensors

        try:
            self._dump.tensors += msprobe_tensors(folder, below)
        except DamagedError as damage:
            self._dump.notes.append(f"{folder}/dump.json: {damage.detail}")
            return False
        return True


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:  # a link that leads nowhere, or a file just removed
        return 0


def _add(dump: BareDump, finder: _Finder, place: _Place) -> None:
    try:
        dump.tensors += finder(place)
    except DamagedError as damage:
        dump.tensors.append(_damaged(place, damage))


def _damaged(place: _Place, damage: DamagedError) -> BareTensor:
    file = (place.folder, place.file)
    name = place.below(place.file)
    return BareTensor(name, place.path, None, damage.reason, damage.detail, None, file)


def _kind(file: str, path: Path, form: RawForm) -> _Finder | None:
    """What reads a file of this name; None if it holds no tensors."""
    if file.endswith(NPY):
        return lambda place: iter([_of_npy(place.path, file, place.folder, place.size, form)])
    if file.endswith(NPZ):
        return lambda place: _of_archive(place, form)
    if file.endswith(_TORCH):
        return _of_torch
    if file.endswith(JSON):
        from importers.dumps.polygraphy import is_results

        return _of_results if is_results(path) else None
    if _EVENT.fullmatch(file):
        return _of_event
    if _is_dump(file):
        return _of_device_file
    told = _TOLD_RAW.fullmatch(file.removesuffix(_RAW)) if file.endswith(_RAW) else None
    if told is not None and _named(told["dtype"]) is not None:
        return lambda place: _of_told_raw(place, told)
    if form.dtype is not None and (file.endswith((_RAW, ".raw", ".data")) or "." not in file):
        return lambda place: _of_raw(place, form)
    return None


def _is_dump(file: str) -> bool:
    if file.startswith((OPDEBUG, EXCEPTION)) or file.endswith((".csv", ".txt", ".log")):
        return False
    return _HASH.fullmatch(file.removesuffix(_RAW)) is not None or (
        parse_dump_name(file) is not None
    )


def _of_npy(path: Path, file: str, folder: str, size: int, form: RawForm) -> BareTensor:
    stem = file[: -len(NPY)]
    raw_type = form.dtype if form.dtype is not None and form.dtype.numpy is None else None
    # Whatever is in it is read with the values: opening a file twice doubles its cost.
    ref = DumpTensorRef(path, DumpFormat.NPY, "", TensorIO.OUTPUT, 0, raw_type, None, 0, size)
    name = f"{folder}/{stem}" if folder else stem
    return BareTensor(name, path, ref, None, "", None, (folder, stem))


def _of_archive(place: _Place, form: RawForm) -> Iterator[BareTensor]:
    from importers.dumps.npz import read_members

    stem = place.file.removesuffix(NPZ)
    scope = f"{place.scope}/{stem}" if place.scope else stem
    with open_dump(place.path) as (fd, size):
        members = read_members(fd, size)
    for member in members:
        identity = Identity(scope, "", _plain(member.name), TensorIO.OUTPUT, 0)
        name = place.below(f"{stem}/{member.name}")
        try:
            if member.header is None:
                raise member.damage or DamagedError(Reason.UNREADABLE_DUMP, "no header")
            dtype = member.header.element_type(form.dtype)
        except DamagedError as damage:
            yield BareTensor(name, place.path, None, damage.reason, damage.detail, (identity, 0))
            continue
        ref = DumpTensorRef(
            place.path,
            DumpFormat.NPZ,
            member.name,
            TensorIO.OUTPUT,
            0,
            dtype,
            member.header.shape,
            member.offset,
            member.nbytes,
        )
        yield BareTensor(name, place.path, ref, _told=(identity, 0))


def _of_torch(place: _Place) -> Iterator[BareTensor]:
    from importers.dumps.torch_file import read_torch

    with open_dump(place.path) as (fd, size):
        tensor = read_torch(fd, size)
    stem = place.file.rpartition(".")[0]
    identity, time = _identity(place.folder, stem)
    ref = _ref(place.path, DumpFormat.TORCH, identity, tensor.dtype, tensor.shape, tensor.offset)
    yield BareTensor(place.below(stem), place.path, ref, _told=(identity, time))


def _of_results(place: _Place) -> Iterator[BareTensor]:
    from importers.dumps.polygraphy import array_refs

    stem = place.file.removesuffix(JSON)
    for name, found in array_refs(place.path):
        identity = Identity(place.scope, "", _plain(name), TensorIO.OUTPUT, 0)
        full = place.below(f"{stem}/{name}")
        if isinstance(found, DamagedError):
            yield BareTensor(full, place.path, None, found.reason, found.detail, (identity, 0))
        else:
            yield BareTensor(full, place.path, found, _told=(identity, 0))


def _of_event(place: _Place) -> Iterator[BareTensor]:
    from importers.dumps.tfdbg import DEVICE, read_event

    match = _EVENT.fullmatch(place.file)
    assert match is not None
    with open_dump(place.path) as (fd, size):
        event = read_event(fd, size)
    if event.dtype is None or not can_decode(event.dtype):
        raise DamagedError(Reason.DTYPE_UNSUPPORTED, f"elements of type {event.dtype}")
    session, marked, inside = place.folder.rpartition(DEVICE)
    folder = inside.partition("/")[2] if marked else place.folder
    op = f"{folder}/{match['name']}" if folder else match["name"]
    scope = _Place(place.path, "", session.strip("/"), 0).scope
    time = int(match["time"])
    identity = Identity(scope, "", _plain(op), TensorIO.OUTPUT, int(match["slot"]))
    ref = DumpTensorRef(
        place.path,
        DumpFormat.TFDBG,
        op,
        TensorIO.OUTPUT,
        identity.port,
        event.dtype,
        event.shape,
        event.offset,
        event.nbytes,
        timestamp=time,
    )
    name = f"{session}{op}:{match['slot']}"
    yield BareTensor(name, place.path, ref, _told=(identity, time))


def _of_device_file(place: _Place) -> Iterator[BareTensor]:
    from importers.dumps.device_file import look_at, tensor_ref

    name = parse_dump_name(place.file)
    file = look_at(place.path, name)
    if file.header is None:
        raise file.damage or DamagedError(Reason.UNREADABLE_DUMP, "no header")
    op = file.header.op_name or (name.op_name if name else place.file)
    for tensor in file.header.tensors:
        identity = Identity(
            place.scope,
            name.op_type if name else "",
            _plain(op),
            tensor.io,
            tensor.number,
            name.part if name else "",
        )
        full = place.below(f"{place.file}.{tensor.io}.{tensor.number}")
        try:
            ref = tensor_ref(file, tensor, op, tensor.number)
        except DamagedError as damage:
            told = (identity, file.timestamp)
            yield BareTensor(full, place.path, None, damage.reason, damage.detail, told)
            continue
        yield BareTensor(full, place.path, ref, _told=(identity, file.timestamp))


def _of_told_raw(place: _Place, told: re.Match[str]) -> Iterator[BareTensor]:
    """Values as ``divergraph convert -t bin`` writes them: the name tells their form."""
    shape = tuple(map(int, told["shape"].split("_")))
    dtype = _named(told["dtype"])
    stem = place.file.removesuffix(_RAW)
    identity, time = _identity(place.folder, stem)
    needed = stored_bytes(dtype, prod(shape)) if dtype is not None else -1
    if dtype is None or needed != place.size:
        what = f"{told['shape']} of {told['dtype']} takes {needed} bytes, the file {place.size}"
        raise DamagedError(Reason.UNREADABLE_DUMP, what)
    layout = None if told["layout"] == "ND" else told["layout"]
    ref = _ref(place.path, DumpFormat.RAW, identity, dtype, shape, 0, layout)
    yield BareTensor(place.below(stem), place.path, ref, _told=(identity, time))


def _of_raw(place: _Place, form: RawForm) -> Iterator[BareTensor]:
    assert form.dtype is not None
    stem = place.file.rpartition(".")[0] or place.file
    identity, time = _identity(place.folder, stem)
    bits = form.dtype.bits or 8
    shape = form.shape if form.shape is not None else (place.size * 8 // bits,)
    if stored_bytes(form.dtype, prod(shape)) != place.size:
        what = (
            f"{prod(shape)} elements of {form.dtype} take "
            f"{stored_bytes(form.dtype, prod(shape))} bytes, the file has {place.size}"
        )
        raise DamagedError(Reason.UNREADABLE_DUMP, what)
    ref = _ref(place.path, DumpFormat.RAW, identity, form.dtype, shape, 0)
    yield BareTensor(place.below(stem), place.path, ref, _told=(identity, time))


def _ref(
    path: Path,
    kind: DumpFormat,
    identity: Identity,
    dtype: DType,
    shape: tuple[int, ...],
    offset: int,
    layout: str | None = None,
) -> DumpTensorRef:
    nbytes = stored_bytes(dtype, prod(shape))
    return DumpTensorRef(
        path, kind, identity.op, identity.io, identity.port, dtype, shape, offset, nbytes, layout
    )


def _scope(folder: str) -> str:
    return "/".join(part for part in folder.split("/") if not _TIME.fullmatch(part))


def _identity(folder: str, stem: str) -> tuple[Identity, int]:
    """What a file's name tells of its one tensor, and the time in it."""
    scope = _scope(folder)
    match = _CONVERTED.fullmatch(stem) if _is_converted(stem) else None
    if match and (name := parse_dump_name(match["dump"])):
        return _of_dump_name(scope, name, TensorIO(match["io"]), int(match["port"]))
    if match := _GOLDEN.fullmatch(stem):
        op, time = _plain(match["op"]), int(match["time"])
        return Identity(scope, "", op, TensorIO.OUTPUT, int(match["port"])), time
    op, dot, port = stem.rpartition(".")
    if dot and port.isdecimal() and len(port) <= 6:
        return Identity(scope, "", _plain(op), TensorIO.OUTPUT, int(port)), 0
    return Identity(scope, "", _plain(stem), TensorIO.OUTPUT, 0), 0


def _is_converted(stem: str) -> bool:
    """True if it may be the name of an array out of a dump file; others tell no op type."""
    return ".output." in stem or ".input." in stem


def _of_dump_name(scope: str, name: DumpName, io: TensorIO, port: int) -> tuple[Identity, int]:
    op = _plain(name.op_name)
    return Identity(scope, name.op_type, op, io, port, name.part), name.timestamp


_LOST = str.maketrans(dict.fromkeys("./\\ :", "_"))


def _plain(name: str) -> str:
    return name.translate(_LOST)


def _named(name: str) -> DType | None:
    try:
        return DType(name)
    except ValueError:
        return None
