"""Archives of ``numpy.savez``: a zip file with a ``.npy`` file for each array.

Members are read in place where they are stored, and unpacked where they are compressed;
nothing is unpickled.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DumpTensorRef, Reason
from importers.dumps.arrays.npy import NpyHeader, header_of, parse_npy_header
from importers.dumps.index import DamagedError, shown

ENDING = ".npz"
_ARRAY = ".npy"
_MAX_MEMBERS = 1 << 20
_HEAD = 16_384
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One array of an archive: ``offset`` and ``nbytes`` are those of the stored ``.npy``
    file, packed or not; ``header`` says what it holds, or ``damage`` why nobody knows."""

    name: str
    offset: int
    nbytes: int
    header: NpyHeader | None
    damage: DamagedError | None = None


def read_members(fd: int, size: int) -> tuple[ArchiveMember, ...]:
    """The arrays of the open archive of *size* bytes, in its order.

    Raises:
        DamagedError: it is no zip archive.
    """
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            raise DamagedError(Reason.UNREADABLE_DUMP, f"no .npz archive: {error}") from None
    if len(infos) > _MAX_MEMBERS:
        raise DamagedError(Reason.UNREADABLE_DUMP, f"an archive of {len(infos)} members")
    arrays = [info for info in infos if info.filename.endswith(_ARRAY)]
    return tuple(_member(info, fd, size) for info in arrays)


def _member(info: zipfile.ZipInfo, fd: int, size: int) -> ArchiveMember:
    name = info.filename.removesuffix(_ARRAY)
    try:
        start = _start(info, fd, size)
        first = os.pread(fd, min(info.compress_size, _HEAD), start)
        if info.compress_type == zipfile.ZIP_DEFLATED:
            first = _unpacked(first, _HEAD)
        header = parse_npy_header(first, info.file_size)
    except DamagedError as damage:
        return ArchiveMember(name, 0, 0, None, damage)
    return ArchiveMember(name, start, info.compress_size, header)


def _start(info: zipfile.ZipInfo, fd: int, size: int) -> int:
    what = shown(info.filename)
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedError(Reason.UNREADABLE_DUMP, f"member {what} is encrypted or packed oddly")
    head = b""
    if 0 <= info.header_offset <= size:
        head = os.pread(fd, _LOCAL_HEADER.size, info.header_offset)
    if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
        raise DamagedError(
            Reason.UNREADABLE_DUMP, f"no member {what} here", offset=info.header_offset
        )
    _, name_length, extra_length = _LOCAL_HEADER.unpack(head)
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    if start + info.compress_size > size:
        raise DamagedError(
            Reason.UNREADABLE_DUMP, f"the file is cut inside {what}", offset=min(start, size)
        )
    return int(start)


def member_data(fd: int, ref: DumpTensorRef) -> tuple[NpyHeader, int | NDArray[np.uint8]]:
    """The header of a member, and where in the file its data begins; the data itself if it
    is compressed.

    Raises:
        DamagedError: the file is not what it was when it was listed.
    """
    first = os.pread(fd, min(ref.nbytes, _HEAD), ref.offset)
    if first[: len(_MAGIC)] == _MAGIC:
        header = parse_npy_header(first, ref.nbytes)
        return header, ref.offset + header.data_offset
    # As large as its header says, and no larger, whatever the archive holds.
    start = header_of(_unpacked(first, _HEAD))
    limit = start.data_offset + start.nbytes
    data = _unpacked(os.pread(fd, ref.nbytes, ref.offset), limit + 1)
    header = parse_npy_header(data[:_HEAD], len(data))
    return header, np.frombuffer(data, np.uint8)[header.data_offset :]


def _unpacked(packed: bytes, limit: int) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit)
    except zlib.error as error:
        raise DamagedError(Reason.UNREADABLE_DUMP, f"the packed data is damaged: {error}") from None
