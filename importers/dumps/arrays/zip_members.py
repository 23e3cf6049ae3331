"""Members of zip archives by where they lie: those of ``numpy.savez`` and ``torch.save``."""

from __future__ import annotations

import os
import struct
import zipfile

from importers.dumps.index import DamagedError, shown

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
        head = os.pread(fd, _LOCAL_HEADER.size, at)
    if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
        raise DamagedError(f"no member {what} here", offset=at)
    _, name_length, extra_length = _LOCAL_HEADER.unpack(head)
    start: int = at + _LOCAL_HEADER.size + name_length + extra_length
    if start + info.compress_size > size:
        raise DamagedError(f"the file is cut inside {what}", offset=min(start, size))
    return start
