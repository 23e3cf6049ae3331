"""Session folders of TensorFlow's debugger (tfdbg v1).

Below ``_tfdbg_device_,job_...`` lies a file for each tensor, at the path of its op:
``{op}_{output}_{debug op}_{microseconds}``, an ``Event`` message with one tensor. Field
numbers follow tensorflow/core/util/event.proto, framework/summary.proto and tensor.proto.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef, ModelGraph, Reason, TensorIO
from importers.contract import Confidence
from importers.dumps.ascend import wire_walk as wirewalk
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor, plain, scope_of
from importers.dumps.contract import DumpChoice, DumpReader, FilePlace, FoundDump, RawForm
from importers.dumps.decode import can_decode, stored_bytes
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    FolderListing,
    Gathering,
    TensorKey,
    open_dump,
)
from importers.proto.messages import tf_graph_pb2 as pb
from importers.proto.wire import BLOCK, VARINT, FieldSpan
from importers.tensorflow.types import dtype_of

DEVICE = "_tfdbg_device_"
_FILE = re.compile(r"(?P<name>.+)_(?P<slot>\d{1,6})_(?P<debug>Debug[A-Za-z]+)_(?P<time>\d{1,20})")
_FED = re.compile(r"_arg_(?P<name>.+)_\d+_\d+")
_IDENTITY = "DebugIdentity"
_MAX_DEPTH = 64
_MAX_REPEATED = 256 << 20
_MAX_VARINTS = 32 << 20
_MAX_SHAPE = 1 << 16
# Event.summary, Summary.value, Value.tensor
_SUMMARY, _VALUE, _TENSOR = 5, 1, 8
_TYPE, _SHAPE, _CONTENT = 1, 2, 4
# The repeated field a TensorProto may hold its values in, by element type, and how one
# value is stored there: fixed width, or a varint.
_FIELDS: dict[DType, tuple[int, str]] = {
    DType.FLOAT32: (5, "<f4"),
    DType.FLOAT64: (6, "<f8"),
    **dict.fromkeys((DType.INT32, DType.INT16, DType.INT8, DType.UINT8, DType.UINT16), (7, "")),
    **dict.fromkeys((DType.QINT8, DType.QUINT8, DType.QINT32), (7, "")),
    DType.COMPLEX64: (9, "<c8"),
    DType.INT64: (10, ""),
    DType.BOOL: (11, ""),
    DType.COMPLEX128: (12, "<c16"),
    **dict.fromkeys((DType.FLOAT16, DType.BFLOAT16), (13, "")),
    DType.UINT32: (16, ""),
    DType.UINT64: (17, ""),
}


@dataclass(frozen=True, slots=True)
class EventTensor:
    """The tensor in one file: type, shape, and the bytes of its content or, in *field*,
    of the repeated values that stand for it."""

    dtype: DType | None
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    field: tuple[FieldSpan, ...] = ()

    def ref(self, path: Path, key: TensorKey, timestamp: int) -> DumpTensorRef:
        """The tensor *key* as it lies in the file *path*.

        Raises:
            DamagedError: its elements cannot be read.
        """
        if self.dtype is None or not can_decode(self.dtype):
            what = "an unknown type" if self.dtype is None else f"type {self.dtype}"
            raise DamagedError(f"elements of {what} cannot be read", Reason.DTYPE_UNSUPPORTED)
        return DumpTensorRef(
            *(path, DumpFormat.TFDBG, *key, self.dtype, self.shape, self.offset, self.nbytes),
            timestamp=timestamp,
        )


def device_folders(root: Path) -> list[Path]:
    """The folders of the devices directly in a session folder, sorted; *root* itself if
    it is one."""
    if root.name.startswith(DEVICE):
        return [root]
    try:
        with os.scandir(root) as entries:
            paths = [
                entry.path
                for entry in entries
                if entry.name.startswith(DEVICE) and not entry.is_symlink()
            ]
    except OSError:
        return []
    return [Path(path) for path in sorted(paths)]


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    timestamp: int


def scan_tfdbg(root: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of a session folder by op of *graph*, the latest of each."""
    gathered = Gathering()
    ops = {op.name: op.id for op in reversed(graph.ops) if op.subgraph}
    ops |= {op.name: op.id for op in graph.ops if not op.subgraph}
    outputs: dict[TensorKey, list[_Found]] = {}
    inputs_fed: dict[TensorKey, list[_Found]] = {}
    passed: set[str] = set()
    for path, name in (file for device in device_folders(root) for file in _files(device, "", 0)):
        match = _FILE.fullmatch(name)
        if match is None or match["debug"] != _IDENTITY:
            passed |= {match["debug"]} if match else set()
            continue
        gathered.files += 1
        fed = _FED.fullmatch(match["name"]) if match["name"] not in ops else None
        op = ops.get(fed["name"] if fed else match["name"])
        if op is None:
            gathered.unmatched.append(path)
            continue
        key = (op, TensorIO.OUTPUT, int(match["slot"]))
        (inputs_fed if fed else outputs).setdefault(key, []).append(
            _Found(path, int(match["time"]))
        )
    # A placeholder has no file of its own where its value was fed: "_arg_" has it.
    for key, group in (inputs_fed | outputs).items():
        latest = gathered.latest(group)
        gathered.keep(latest.path, key, partial(_ref, latest, key))
    return gathered.index(
        notes=tuple(f"files of {folder} are passed over" for folder in sorted(passed))
    )


def files_of_device(folder: Path) -> Iterator[Path]:
    """The files of tensors below the *folder* of a device."""
    for path, name in _files(folder, "", 0):
        match = _FILE.fullmatch(name)
        if match is not None and match["debug"] == _IDENTITY:
            yield path


def _files(folder: Path, prefix: str, depth: int) -> Iterator[tuple[Path, str]]:
    """The files below *folder* with their place in it; links out of it are not followed."""
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return  # a folder that may not be read holds nothing for us
    for entry in sorted_entries:
        if entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH:
                yield from _files(folder / entry.name, f"{prefix}{entry.name}/", depth + 1)
        elif not entry.name.startswith("_tfdbg_"):
            yield folder / entry.name, prefix + entry.name


def _ref(candidate: _Found, key: TensorKey) -> DumpTensorRef:
    with open_dump(candidate.path) as (fd, size):
        return read_event(fd, size).ref(candidate.path, key, candidate.timestamp)


def read_event(fd: int, size: int) -> EventTensor:
    """The tensor in the open file of *size* bytes, its values checked but not read.

    Raises:
        DamagedError: no such message, no tensor in it, or of another length than its
            shape says; says at which byte.
    """
    if size == 0:
        raise DamagedError("the file is empty", offset=0)
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        summary = _only(data, 0, size, _SUMMARY, "no summary in the event")
        value = _only(data, summary.start, summary.end, _VALUE, "no value in the summary")
        tensor = _only(data, value.start, value.end, _TENSOR, "no tensor in the value")
        return _tensor(data, tensor)


def _only(data: mmap.mmap, start: int, end: int, number: int, missing: str) -> FieldSpan:
    for field in wirewalk.fields(data, start, end):
        if field.number == number and field.wire_type == BLOCK:
            return field
    raise DamagedError(missing, offset=start)


def _tensor(data: mmap.mmap, tensor: FieldSpan) -> EventTensor:
    dtype: DType | None = None
    shape: tuple[int, ...] = ()
    content: FieldSpan | None = None
    others: dict[int, list[FieldSpan]] = {}
    # Values one by one, not packed, are what an old writer may leave.
    for span in wirewalk.fields(data, tensor.start, tensor.end, limit=1 << 20):
        if span.number == _TYPE and span.wire_type == VARINT:
            dtype = dtype_of(span.value & 0xFFFF_FFFF)
        elif span.number == _SHAPE and span.wire_type == BLOCK:
            shape = _shape(data, span)
        elif span.number == _CONTENT and span.wire_type == BLOCK:
            content = span
        elif span.number > _CONTENT:
            others.setdefault(span.number, []).append(span)
    if dtype is DType.RESOURCE:
        raise DamagedError(
            "a handle of type resource, which has no values", Reason.DTYPE_UNSUPPORTED
        )
    if dtype is None or dtype.bits is None:
        return EventTensor(dtype, shape, tensor.start, 0)
    expected = stored_bytes(dtype, prod(shape))
    if content is not None and (content.end > content.start or not others):
        return _with_content(dtype, shape, content, expected)
    if not expected:
        return EventTensor(dtype, shape, tensor.end, 0)
    field, _ = _FIELDS.get(dtype, (0, ""))
    values = tuple(others.get(field, ()))
    if not values:
        raise _bad(f"no values of {dtype} for shape {list(shape)}", tensor.start)
    if expected > max(8 * (tensor.end - tensor.start), _MAX_REPEATED):
        raise _bad(f"one value stands for {prod(shape)} elements, which are too many", tensor.start)
    start, end = values[0].start, values[-1].end
    if not _FIELDS[dtype][1] and end - start > _MAX_VARINTS:
        raise _bad(f"{end - start} bytes of numbers of varying length are too many", start)
    return EventTensor(dtype, shape, start, end - start, values)


def _with_content(
    dtype: DType, shape: tuple[int, ...], content: FieldSpan, expected: int
) -> EventTensor:
    have = content.end - content.start
    # TensorFlow keeps types of less than a byte in a byte each.
    if dtype.bits is not None and dtype.bits < 8 and have == prod(shape):
        raise DamagedError(f"elements of type {dtype}, a byte each", Reason.DTYPE_UNSUPPORTED)
    if have != expected:
        what = f"{have} bytes of values, {list(shape)} of {dtype} takes {expected}"
        raise _bad(what, content.start)
    return EventTensor(dtype, shape, content.start, have)


def _shape(data: mmap.mmap, field: FieldSpan) -> tuple[int, ...]:
    unclear = _bad("a tensor without a definite shape", field.start)
    if field.end - field.start > _MAX_SHAPE:
        raise unclear
    try:
        shape_message = pb.TensorShape.FromString(data[field.start : field.end])
    except DecodeError:
        raise unclear from None
    if shape_message.unknown_rank:
        raise _bad("a tensor of unknown rank", field.start)
    dims = tuple(dim.size for dim in shape_message.dim)
    if len(dims) > 64 or not all(0 <= size < 1 << 62 for size in dims):
        raise unclear
    return dims


def event_values(fd: int, size: int, ref: DumpTensorRef) -> NDArray[np.generic] | None:
    """The values of a tensor kept in repeated fields, in its shape; None if they lie as
    plain bytes at ``ref.offset``.

    Raises:
        DamagedError: the file is not what it was when scanned.
    """
    event = read_event(fd, size)
    if (event.dtype, event.shape, event.offset) != (ref.dtype, ref.shape, ref.offset):
        raise _bad("another tensor than when the folder was scanned", event.offset)
    if not event.field or event.dtype is None:
        return None
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        values = _repeated(data, event.field, event.dtype)
    count = prod(event.shape)
    if not len(values):
        raise _bad("no values", event.offset)
    if len(values) < count:  # the last value stands for all that are left out
        values = np.concatenate([values, np.repeat(values[-1:], count - len(values))])
    return values[:count].reshape(event.shape)


def _repeated(data: mmap.mmap, field: tuple[FieldSpan, ...], dtype: DType) -> NDArray[np.generic]:
    _, width = _FIELDS[dtype]
    if width:
        raw = b"".join(bytes(data[part.start : part.end]) for part in field)
        itemsize = np.dtype(width).itemsize
        return np.frombuffer(raw[: len(raw) // itemsize * itemsize], width)
    numbers: list[int] = []
    for part in field:
        if part.wire_type == VARINT:
            numbers.append(part.value)
            continue
        at = part.start
        while at < part.end:
            value, at = wirewalk.varint(data, at, part.end)
            numbers.append(value)
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        bits = np.array([number & 0xFFFF for number in numbers], np.uint16)
        if dtype is DType.FLOAT16:
            return bits.view(np.float16)
        return (bits.astype(np.uint32) << 16).view(np.float32)
    assert dtype.numpy is not None
    raw = struct.pack(f"<{len(numbers)}Q", *numbers)
    return np.frombuffer(raw, np.int64).astype(dtype.numpy)


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the event is damaged: {what}", offset=at)


_EVENT = re.compile(r"(?P<name>.+)_(?P<slot>\d{1,6})_DebugIdentity_(?P<time>\d{1,20})")


class TfdbgReader(DumpReader):
    """Session folders of the debugger, and single files of one."""

    name = "tfdbg"
    reads = "session folders of TensorFlow's debugger, and their files"
    whole_folder = True
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """A file outside of its session names no op by itself."""
        return Confidence.NO

    def claims_folder(self, name: str) -> bool:
        """The folder of a device."""
        return name.startswith(DEVICE)

    def lists(self, name: str, folder: str) -> bool:
        """Single files, wherever they lie."""
        return _EVENT.fullmatch(name) is not None

    def owns(self, listing: FolderListing) -> bool:
        """A session folder."""
        return bool(self._devices(listing))

    def _devices(self, listing: FolderListing) -> list[Path]:
        session = listing.folder.name.startswith(DEVICE) or any(
            name.startswith(DEVICE) for name in listing.others
        )
        return device_folders(listing.folder) if session else []

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """A session by the folder of its first device."""
        if devices := self._devices(listing):
            reason = f"{devices[0].name} is a device of a TensorFlow debugger session"
            yield FoundDump(listing.folder, self.name, Confidence.SURE, reason)

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The tensor of an event file."""
        match = _EVENT.fullmatch(place.file)
        assert match is not None
        with open_dump(place.path) as (fd, size):
            event = read_event(fd, size)
        # of a file given by itself the op's scope is told by the folders above
        below = place.folder or place.path.absolute().parent.as_posix()
        session, marked, inside = below.rpartition(DEVICE)
        session = session if place.folder else ""
        folder = inside.partition("/")[2] if marked else place.folder
        op = f"{folder}/{match['name']}" if folder else match["name"]
        port, time = int(match["slot"]), int(match["time"])
        ref = event.ref(place.path, (op, TensorIO.OUTPUT, port), time)
        identity = Identity(scope_of(session.strip("/")), "", plain(op), TensorIO.OUTPUT, port)
        yield found_tensor(f"{session}{op}:{match['slot']}", place.path, ref, identity, time)

    def value_files(self, listing: FolderListing) -> Iterable[Path]:
        """Those of tensors below the folders of the devices."""
        return [path for device in self._devices(listing) for path in files_of_device(device)]

    def array_name(self, tensor: BareTensor) -> str:
        """The op, its output and the time."""
        op, _, port = tensor.name.rpartition(":")
        return f"{op}.{port}.{tensor.timestamp}"

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """The tensors of a session by op."""
        return scan_tfdbg(listing.folder, graph)
