"""Archives of ``numpy.savez``: a zip file with a ``.npy`` file for each array.

Members are read in place where they are stored, and unpacked where they are compressed; none
counts whose CRC-32 is not the archive's. Nothing is unpickled.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO
from importers.dumps.arrays.npy import NpyHeader, header_of, parse_npy_header
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor, plain
from importers.dumps.contract import DumpReader, FilePlace, RawForm
from importers.dumps.index import DamagedError, open_dump, or_damage, shown
from importers.source import UnnamedFile, read_at

MAX_MEMBERS = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def list_members(fd: int, what: str) -> list[zipfile.ZipInfo]:
    """The members of the open zip archive, which should be a *what*, in its order.

    Raises:
        DamagedError: it is no zip archive.
    """
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError) as error:
            raise DamagedError(f"no {what}: {error}", offset=0) from None
    if len(infos) > MAX_MEMBERS:
        raise DamagedError(f"an archive of {len(infos)} members", offset=0)
    if sum(info.compress_size for info in infos) > os.fstat(fd).st_size:
        raise DamagedError("its members lie one over the other, as in a zip bomb", offset=0)
    return infos


def member_place(info: zipfile.ZipInfo, fd: int, size: int, *packings: int) -> int:
    """Where a member's bytes begin in the open archive of *size* bytes.

    Raises:
        DamagedError: it is packed in none of the ways *packings*, or not within the file.
    """
    what = shown(info.filename)
    if info.compress_type not in packings or info.flag_bits & 1:
        raise DamagedError(f"member {what} is compressed in a way not read, or encrypted", offset=0)
    at, head = info.header_offset, b""
    if 0 <= at <= size:
        head = read_at(fd, _LOCAL_HEADER.size, at)
    if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
        raise DamagedError(f"no member {what} here", offset=at)
    _, name_length, extra_length = _LOCAL_HEADER.unpack(head)
    start: int = at + _LOCAL_HEADER.size + name_length + extra_length
    if start + info.compress_size > size:
        raise DamagedError(f"the file is cut inside {what}", offset=min(start, size))
    return start


ENDING = ".npz"
_ARRAY = ".npy"
_HEAD = 16_384
_MAGIC = b"\x93NUMPY"
_CHUNK = 1 << 20
_MOST_IN_MEMORY = 64 << 20
"""Bytes of an array that are unpacked into memory; larger ones into a file."""
_SWELLS = 200
"""Times its packed size to which nothing but one value again and again unpacks: noise does not
shrink, and a tensor of nine zeros in ten to a fifth."""
_MOST_SWOLLEN = 1 << 30
"""Bytes that such arrays of one archive may unpack to; more is a bomb, or not worth the time."""


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One array of an archive: ``offset`` and ``nbytes`` are those of the stored ``.npy``
    file, packed or not; ``header`` says what it holds, or why nobody knows."""

    name: str
    header: NpyHeader | DamagedError
    offset: int = 0
    nbytes: int = 0
    crc32: int | None = None

    def ref(self, path: Path, expected: DType | None) -> DumpTensorRef:
        """The array as a tensor of the archive at *path*.

        Raises:
            DamagedError: it is damaged, or its type that of no tensor element.
        """
        if isinstance(self.header, DamagedError):
            raise self.header
        ref = self.header.ref(path, (self.name, TensorIO.OUTPUT, 0), expected)
        return replace(
            ref,
            format=DumpFormat.NPZ,
            offset=self.offset,
            nbytes=self.nbytes,
            crc32=self.crc32,
        )


def read_members(fd: int, size: int) -> tuple[ArchiveMember, ...]:
    """The arrays of the open archive of *size* bytes, in its order.

    Raises:
        DamagedError: it is no zip archive.
    """
    infos = [info for info in list_members(fd, ".npz archive") if info.filename.endswith(_ARRAY)]
    swelling = [info for info in infos if info.file_size > _SWELLS * info.compress_size]
    bombs = swelling if sum(info.file_size for info in swelling) > _MOST_SWOLLEN else []
    at = {info.header_offset for info in bombs}
    return tuple(
        _bomb(info) if info.header_offset in at else _member(info, fd, size) for info in infos
    )


def _bomb(info: zipfile.ZipInfo) -> ArchiveMember:
    what = f"{info.compress_size} bytes that would unpack to {info.file_size}, as a zip bomb does"
    detail = f"{what}: not unpacked; `unzip` it, if it is meant, and give the folder"
    return ArchiveMember(info.filename.removesuffix(_ARRAY), DamagedError(detail))


def _member(info: zipfile.ZipInfo, fd: int, size: int) -> ArchiveMember:
    name = info.filename.removesuffix(_ARRAY)
    try:
        start = member_place(info, fd, size, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        first = read_at(fd, min(info.compress_size, _HEAD), start)
        if info.compress_type == zipfile.ZIP_DEFLATED:
            first = _unpacked(first, _HEAD)
        header = parse_npy_header(first, info.file_size)
    except DamagedError as damage:
        return ArchiveMember(name, damage)
    return ArchiveMember(name, header, start, info.compress_size, info.CRC)


def member_data(fd: int, ref: DumpTensorRef) -> tuple[NpyHeader, int | NDArray[np.uint8]]:
    """The header of a member, and where in the file its data begins; the data itself if it
    is compressed.

    Raises:
        DamagedError: the file is damaged, or not what it was when it was listed.
    """
    first = read_at(fd, min(ref.nbytes, _HEAD), ref.offset)
    if first[: len(_MAGIC)] == _MAGIC:
        header = parse_npy_header(first, ref.nbytes)
        crc = 0
        for place in range(ref.offset, ref.offset + ref.nbytes, _CHUNK):
            end = ref.offset + ref.nbytes
            crc = zlib.crc32(read_at(fd, min(_CHUNK, end - place), place), crc)
        _check_crc(ref, crc)
        return header, ref.offset + header.data_offset
    # As large as its header says, and no larger, whatever the archive holds.
    head = _unpacked(first, _HEAD)
    start = header_of(head, len(head))
    limit = start.data_offset + start.nbytes + 1
    data: bytes | mmap.mmap
    if limit <= _MOST_IN_MEMORY:
        data = _unpacked(read_at(fd, ref.nbytes, ref.offset), limit)
        crc = zlib.crc32(data)
    else:
        data, crc = _unpacked_file(fd, ref, limit)
    header = parse_npy_header(data[:_HEAD], len(data))
    _check_crc(ref, crc)
    return header, np.frombuffer(data, np.uint8)[header.data_offset :]


def _check_crc(ref: DumpTensorRef, crc: int) -> None:
    if ref.crc32 is not None and crc != ref.crc32:
        detail = f"its CRC-32 is {crc:08x}, the archive says {ref.crc32:08x}"
        raise DamagedError(f"the array is damaged: {detail}")


def _unpacked_file(fd: int, ref: DumpTensorRef, limit: int) -> tuple[mmap.mmap, int]:
    """At most *limit* bytes of the member, in a temporary file without a name, and their
    CRC-32: two megabytes may unpack to two gigabytes, of which memory then holds only what is
    looked at, and the system can put even that out."""
    unpacking, length, crc = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
    with tempfile.TemporaryFile(prefix="divergraph-") as file:
        for place in range(ref.offset, ref.offset + ref.nbytes, _CHUNK):
            packed = read_at(fd, min(_CHUNK, ref.offset + ref.nbytes - place), place)
            while packed and length < limit and not unpacking.eof:
                part = _more(unpacking, packed, min(_CHUNK, limit - length))
                length += len(part)
                crc = zlib.crc32(part, crc)
                if part.count(0) == len(part):
                    file.seek(length)  # zeros take no room on the disk
                else:
                    file.write(part)
                packed = unpacking.unconsumed_tail
        rest = b"" if unpacking.eof or length >= limit else unpacking.flush()[: limit - length]
        file.write(rest)
        length += len(rest)
        file.truncate(length)
        mapped = UnnamedFile(file.fileno(), length, access=mmap.ACCESS_READ)
        return mapped, zlib.crc32(rest, crc)


def _more(unpacking: Any, packed: bytes, limit: int) -> bytes:
    try:
        part: bytes = unpacking.decompress(packed, limit)
    except zlib.error as error:
        raise DamagedError(f"the packed data is damaged: {error}") from None
    return part


def _unpacked(packed: bytes, limit: int) -> bytes:
    return _more(zlib.decompressobj(-zlib.MAX_WBITS), packed, limit)


class NpzReader(DumpReader):
    """Archives of arrays, whose names need not be those of a model's tensors."""

    name = "npz"
    reads = ".npz archives (diff)"
    endings = (ENDING,)
    diff_only = True

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """Its arrays, in its order."""
        scope = f"{place.scope}/{place.stem}" if place.scope else place.stem
        with open_dump(place.path) as (fd, size):
            members = read_members(fd, size)
        for member in members:
            identity = Identity(scope, "", plain(member.name), TensorIO.OUTPUT, 0)
            ref = or_damage(partial(member.ref, place.path, form.dtype))
            full = place.below(f"{place.stem}/{member.name}")
            yield found_tensor(full, place.path, ref, identity, model_name=member.name)
