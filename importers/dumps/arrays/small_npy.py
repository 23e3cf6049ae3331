"""Small ``.npy`` files in one read.

A dump holds thousands of them with few distinct headers, so a header is understood once
and then recognised by its bytes. Whatever is not plain, or not as expected, is left to the
reader that tells what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.dumps.arrays.npy import parse_npy_header
from importers.dumps.index import OPEN_FLAGS, DamagedError

MOST_BYTES = 1 << 20
"""Larger files are mapped, not read."""

_MOST_HEADERS = 4096
_MOST_AXES = 32
_LEAST = 10
_VERSION_1 = b"\x93NUMPY\x01\x00"

_AT_ONCE = 1 << 16
"""Bytes that are read of a file of unknown size: more would cost pages of memory."""


class PlainNpy(NamedTuple):
    """What a plain header says; ``length`` is that of the whole file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    length: int
    kind: DType


_headers: dict[bytes, PlainNpy] = {}
"""Plain headers by their bytes."""


def small_npy(ref: DumpTensorRef) -> NDArray[np.generic] | None:
    """The values of a small ``.npy`` file in its own shape, read-only; None if it is
    anything but the plain file that *ref* describes."""
    length = ref.offset + ref.nbytes
    if ref.format is not DumpFormat.NPY or not 0 < ref.nbytes < MOST_BYTES or ref.parts:
        return None
    found = small_npy_bytes(ref.path, length, most=length)
    if found is None or ref.dtype is None:
        return None
    data, plain = found
    if (plain.dtype, plain.shape, plain.offset) != (ref.dtype.numpy, ref.shape, ref.offset):
        return None
    return np.ndarray(plain.shape, plain.dtype, data, plain.offset)


def small_npy_file(path: str | Path, size: int = 0) -> tuple[NDArray[np.generic], DType] | None:
    """The values and type of a small ``.npy`` file nobody looked at before, read-only;
    None if it is not small and plain. A file known to have *size* bytes is read a little
    faster."""
    found = small_npy_bytes(path, size)
    if found is None:
        return None
    data, plain = found
    return np.ndarray(plain.shape, plain.dtype, data, plain.offset), plain.kind


def small_npy_bytes(
    path: str | Path, size: int = 0, *, most: int = _AT_ONCE
) -> tuple[bytes, PlainNpy] | None:
    """The same as the bytes of the whole file, and what its header says: of files with the
    same header that is one object. A larger *size* than *most* is taken for unknown."""
    # One byte more than there should be, so that a longer file is noticed.
    data = _start_of(path, size + 1 if 0 < size <= most else _AT_ONCE)
    if len(data) < _LEAST or data[:8] != _VERSION_1:
        return None
    start = data[: 10 + data[8] + (data[9] << 8)]
    known = _headers.get(start)
    if known is None:
        known = _plain_header(data)
        if known is None:
            return None
        if len(_headers) >= _MOST_HEADERS:
            _headers.clear()
        _headers[start] = known
    return (data, known) if len(data) == known.length else None


def _plain_header(data: bytes) -> PlainNpy | None:
    try:
        header = parse_npy_header(data, len(data))
        kind = header.element_type()
    except DamagedError:
        return None
    plain = header.dtype.isnative and not header.fortran_order and header.dtype.kind != "b"
    if not plain or not header.nbytes or len(header.shape) > _MOST_AXES:
        return None
    length = header.data_offset + header.nbytes
    return PlainNpy(header.dtype, header.shape, header.data_offset, length, kind)


def _start_of(path: str | Path, length: int) -> bytes:
    """The first bytes of a file, none if it cannot be read: the careful reader says why."""
    try:
        fd = os.open(path, OPEN_FLAGS)
    except OSError:
        return b""
    try:
        return os.pread(fd, length, 0)
    except OSError:
        return b""
    finally:
        os.close(fd)
