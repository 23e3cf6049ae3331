"""Device dump files of Ascend, version 2: header read, sizes checked, ops found.

A file is ``uint64 H`` (little endian), H bytes of a ``DumpData`` message, then the raw
bytes of all inputs, outputs, buffers and workspaces, each as long as its ``size``.
Only the header is read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from google.protobuf.message import DecodeError

from graphstore.model import DType, DumpFormat, DumpTensorRef, ModelGraph, Op, Reason, TensorIO
from importers.dumps.decode import can_decode, stored_bytes
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpProblem,
    Listing,
    TensorKey,
    list_folder,
)
from importers.dumps.names import (
    MAPPING,
    OPDEBUG,
    DumpName,
    OpNames,
    parse_dump_name,
    read_mapping,
)
from importers.dumps.numbers import DTYPES, UNDEFINED, layout_of
from importers.dumps.openfile import open_dump
from importers.protos import dump_data_pb2 as pb

_FIRST_READ = 4096
_MAX_HEADER = 64 << 20
_NANO_MAGIC = b"\x5a\x5a\x5a\x5a"
# A 64-bit hash in place of a too long name; shorter ones are unlikely.
_HASH_DIGITS = 12
_STATISTICS = ".csv"
_ARRAY = ".npy"
_V1_FIELDS = range(1, 10)


@dataclass(frozen=True, slots=True)
class _File:
    """One dump file after its header was looked at."""

    path: Path
    name: DumpName | None
    header: pb.DumpData | None
    data_start: int
    size: int
    damage: DamagedError | None


@dataclass(frozen=True, slots=True)
class _Described:
    """One tensor as the header describes it, and where its bytes should lie."""

    io: TensorIO
    port: int
    head: pb.OpInput | pb.OpOutput
    offset: int


def scan_device_dumps(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of the Ascend dump files directly in *folder*, by op of *graph*.

    Of several dumps of one op the latest counts. A damaged or unclear file becomes a
    problem of its op; nothing of the file's tensor data is read.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    return scan_device_listing(list_folder(folder), graph)


def scan_device_listing(listing: Listing, graph: ModelGraph) -> DumpIndex:
    """As :func:`scan_device_dumps`, for a folder already listed."""
    scan = _Scan(OpNames(graph))
    mapping = read_mapping(listing.folder) if MAPPING in listing.files else {}
    debug_files = [name for name in listing.files if name.startswith(OPDEBUG)]
    for file_name in listing.files:
        if not file_name.startswith(OPDEBUG) and is_device_dump(file_name, mapping):
            path = listing.folder / file_name
            scan.add(_look_at(path, parse_dump_name(mapping.get(file_name, file_name))))
    tables = [name for name in listing.files if name.endswith(_STATISTICS)]
    unusable = [(name, "a dump of statistics, which holds no tensor") for name in tables]
    unusable += [(name, "this is not a regular file") for name in listing.others]
    for file_name, detail in unusable:
        if (name := parse_dump_name(file_name.removesuffix(_STATISTICS))) is not None:
            damage = DamagedError(Reason.UNREADABLE_DUMP, detail)
            scan.add(_File(listing.folder / file_name, name, None, 0, 0, damage))
    return scan.result(tuple(listing.folder / name for name in debug_files))


def is_device_dump(file_name: str, mapping: dict[str, str]) -> bool:
    """True for a name the device gives to dump files: full, or a number for a long one."""
    if file_name.endswith(_ARRAY):
        return False  # even where mapping.csv tells its long name: it is a golden file
    if file_name.isascii() and file_name.isdigit() and len(file_name) >= _HASH_DIGITS:
        return True
    return file_name in mapping or parse_dump_name(file_name) is not None


class _Scan:
    """Collects files by op, then keeps the latest of each."""

    def __init__(self, names: OpNames) -> None:
        self._names = names
        self._by_op: dict[str, tuple[Op, list[_File]]] = {}
        self._tensors: dict[TensorKey, DumpTensorRef] = {}
        self._problems: list[DumpProblem] = []
        self._unmatched: list[Path] = []
        self._superseded: list[Path] = []
        self._files = 0

    def add(self, file: _File) -> None:
        self._files += 1
        exact = "" if file.header is None else file.header.op_name.decode("utf-8", "replace")
        ops = self._names.find(file.name, exact)
        if not ops and file.damage is not None:
            self._problem(file.path, None, file.damage.reason, file.damage.detail)
        elif not ops:
            self._unmatched.append(file.path)
        elif len(ops) > 1:
            self._ambiguous(file, ops)
        else:
            self._by_op.setdefault(ops[0].id, (ops[0], []))[1].append(file)

    def _ambiguous(self, file: _File, ops: tuple[Op, ...]) -> None:
        listed = ", ".join(f"{op.name} ({op.type})" for op in ops)
        detail = f"the file's name fits {len(ops)} ops and its header names none: {listed}"
        for op in ops:
            self._problem(file.path, op.id, Reason.AMBIGUOUS_DUMP, detail)

    def _problem(
        self,
        path: Path,
        op: str | None,
        reason: Reason,
        detail: str,
        *,
        io: TensorIO | None = None,
        port: int | None = None,
    ) -> None:
        self._problems.append(DumpProblem(path, op, io, port, reason, detail))

    def result(self, debug_files: tuple[Path, ...]) -> DumpIndex:
        for op, files in self._by_op.values():
            self._take(op, files)
        return DumpIndex(
            tensors=self._tensors,
            problems=tuple(sorted(self._problems, key=lambda found: (found.path, found.op or ""))),
            unmatched=tuple(self._unmatched),
            files=self._files,
            superseded=tuple(sorted(self._superseded)),
            debug_files=debug_files,
        )

    def _take(self, op: Op, files: list[_File]) -> None:
        files.sort(key=lambda file: (_timestamp(file), file.path.name))
        latest = {file.name.part if file.name else "": file for file in files}
        kept = set(map(id, latest.values()))
        self._superseded += [file.path for file in files if id(file) not in kept]
        if len(latest) > 1:
            slices = ", ".join(sorted(latest))
            detail = f"the op ran in {len(latest)} slices ({slices}), which are not joined"
            for file in latest.values():
                self._problem(file.path, op.id, Reason.LAYOUT_UNSUPPORTED, detail)
            return
        (file,) = latest.values()
        if file.damage is not None:
            self._problem(file.path, op.id, file.damage.reason, file.damage.detail)
            return
        for described in _described(file, op):
            try:
                ref = _tensor_ref(file, op, described)
            except DamagedError as damage:
                self._problem(
                    file.path,
                    op.id,
                    damage.reason,
                    damage.detail,
                    io=described.io,
                    port=described.port,
                )
            else:
                self._tensors[op.id, ref.io, ref.port] = ref


def _timestamp(file: _File) -> int:
    if file.name is not None:
        return file.name.timestamp
    return 0 if file.header is None else file.header.dump_time


def _look_at(path: Path, name: DumpName | None) -> _File:
    try:
        with open_dump(path) as (fd, size):
            header, data_start = _read_header(fd, size)
    except DamagedError as damage:
        return _File(path, name, None, 0, 0, damage)
    return _File(path, name, header, data_start, size, None)


def _read_header(fd: int, size: int) -> tuple[pb.DumpData, int]:
    if size <= 8:
        raise DamagedError(Reason.UNREADABLE_DUMP, f"the file has only {size} bytes", offset=0)
    start = os.pread(fd, _FIRST_READ, 0)
    length = int.from_bytes(start[:8], "little")
    if length == 0 or length > min(size - 8, _MAX_HEADER):
        raise _no_header(fd, size, length)
    if start[8:12] == _NANO_MAGIC:
        raise DamagedError(Reason.UNREADABLE_DUMP, "a Nano dump, which is not supported", offset=8)
    while len(start) < 8 + length:
        more = os.pread(fd, 8 + length - len(start), len(start))
        if not more:
            raise DamagedError(Reason.UNREADABLE_DUMP, "the file ends here", offset=len(start))
        start += more
    header = pb.DumpData()
    try:
        header.ParseFromString(start[8 : 8 + length])
    except DecodeError:
        raise _not_parsed(fd, size, start) from None
    if not header.output and not header.input:
        raise DamagedError(Reason.UNREADABLE_DUMP, "the header describes no tensor", offset=8)
    return header, 8 + length


def _no_header(fd: int, size: int, length: int) -> DamagedError:
    if _is_version_1(fd, size):
        return _version_1()
    if 0 < length <= _MAX_HEADER:
        return DamagedError(
            Reason.UNREADABLE_DUMP,
            f"the file ends inside its header, which takes {8 + length} bytes",
            offset=size,
        )
    return DamagedError(
        Reason.UNREADABLE_DUMP,
        f"this is no Ascend dump: a header of {length} bytes in a file of {size}",
        offset=0,
    )


def _not_parsed(fd: int, size: int, start: bytes) -> DamagedError:
    if _is_version_1(fd, size):
        return _version_1()
    if start[8:9] in b"{[":
        detail = "the header is JSON, as msaccucmp's npy converter writes; not supported"
    else:
        detail = "the header is damaged: it is no DumpData message"
    return DamagedError(Reason.UNREADABLE_DUMP, detail, offset=8)


def _version_1() -> DamagedError:
    return DamagedError(
        Reason.UNREADABLE_DUMP,
        "a dump of version 1, which is not supported (convert it with msaccucmp)",
        offset=0,
    )


def _is_version_1(fd: int, size: int) -> bool:
    """True if the whole file is one message of DumpData's fields: version 1 is that."""
    at = 0
    for _ in range(4096):
        if at >= size:
            return at == size
        window = os.pread(fd, 24, at)
        tag, used = _varint(window, 0)
        wire, number = tag & 7, tag >> 3
        value, end = _varint(window, used) if used else (0, 0)
        if not end or number not in _V1_FIELDS or wire not in (0, 2):
            return False
        at += end + (value if wire == 2 else 0)
    return False


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at *at* and the place behind it; place 0 if there is none."""
    value = shift = 0
    for index in range(at, min(at + 10, len(data))):
        value |= (data[index] & 0x7F) << shift
        if data[index] < 0x80:
            return value, index + 1
        shift += 7
    return 0, 0


def _described(file: _File, op: Op) -> Iterator[_Described]:
    header, offset = file.header, file.data_start
    if header is None:
        return
    ports = _input_ports(op, len(header.input))
    for port, given in zip(ports, header.input, strict=True):
        yield _Described(TensorIO.INPUT, port, given, offset)
        offset += given.size
    for port, made in enumerate(header.output):
        yield _Described(TensorIO.OUTPUT, port, made, offset)
        offset += made.size


def _input_ports(op: Op, dumped: int) -> list[int]:
    """The input positions of the dumped inputs.

    The device dumps only connected inputs; an optional input left open in the graph
    shifts the rest.
    """
    connected = [port for port, ref in enumerate(op.inputs) if ref is not None]
    if dumped == len(connected) < len(op.inputs):
        return connected
    return list(range(dumped))


def _tensor_ref(file: _File, op: Op, described: _Described) -> DumpTensorRef:
    head, offset = described.head, described.offset
    dtype = DTYPES.get(head.data_type)
    if dtype is None or not can_decode(dtype):
        what = f"type number {head.data_type}" if dtype is None else f"type {dtype}"
        raise DamagedError(Reason.DTYPE_UNSUPPORTED, f"elements of {what} cannot be read")
    if offset + head.size > file.size:
        raise DamagedError(
            Reason.UNREADABLE_DUMP,
            f"the file is cut: this tensor takes bytes {offset} to {offset + head.size}, "
            f"the file has {file.size}",
            offset=min(offset, file.size),
        )
    shape, nbytes = _stored_shape(head, dtype, offset)
    layout = layout_of(head.format, head.sub_format)
    return DumpTensorRef(
        path=file.path,
        format=DumpFormat.ASCEND_V2,
        op=op.id,
        io=described.io,
        port=described.port,
        dtype=dtype,
        shape=shape,
        offset=offset,
        nbytes=nbytes,
        layout=layout.name,
        original_shape=_plain_dims(head.original_shape),
        groups=layout.groups,
        address=head.address,
        timestamp=_timestamp(file),
    )


def _plain_dims(shape: pb.Shape) -> tuple[int, ...] | None:
    """The dims, or None if there are none or one is not known (-1 as unsigned)."""
    dims = tuple(shape.dim)
    return dims if dims and all(dim < 1 << 62 for dim in dims) else None


def _stored_shape(
    head: pb.OpInput | pb.OpOutput, dtype: DType, offset: int
) -> tuple[tuple[int, ...], int]:
    """The shape and the bytes of its elements; without dims, what the size allows."""
    if head.data_type == UNDEFINED:
        return (head.size,), head.size
    dims = tuple(head.shape.dim)
    if not dims:
        one = stored_bytes(dtype, 1)
        shape = () if head.size == one else (head.size * 8 // (dtype.bits or 8),)
        return shape, stored_bytes(dtype, prod(shape))
    if max(dims) >= 1 << 62:
        raise DamagedError(Reason.UNREADABLE_DUMP, "the header has no definite shape", offset=8)
    nbytes = stored_bytes(dtype, prod(dims))
    if nbytes > head.size:
        raise DamagedError(
            Reason.UNREADABLE_DUMP,
            f"shape {list(dims)} of {dtype} takes {nbytes} bytes, the header gives {head.size}",
            offset=offset,
        )
    return dims, nbytes
