"""Small ``.npy`` files in one read.

A dump holds thousands of them with few distinct headers, so a header is understood once
and then recognised by its bytes. Whatever is not plain, or not as expected, is left to the
reader that tells what is wrong.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.dumps.index import DamagedError
from importers.dumps.npy import parse_npy_header
from importers.dumps.openfile import OPEN_FLAGS

MOST_BYTES = 1 << 20
"""Larger files are mapped, not read."""

_MOST_HEADERS = 4096

_Key = tuple[bytes, tuple[int, ...] | None, DType | None]
_known: dict[_Key, np.dtype] = {}
"""Element types by header, and what the dump's index expects of it."""


def small_npy(ref: DumpTensorRef) -> NDArray[np.generic] | None:
    """The values of a small ``.npy`` file in its own shape, read-only; None if it is
    anything but the plain file that *ref* describes."""
    offset, nbytes = ref.offset, ref.nbytes
    if ref.format is not DumpFormat.NPY or not 0 < nbytes < MOST_BYTES or ref.parts:
        return None
    try:
        fd = os.open(ref.path, OPEN_FLAGS)
    except OSError:
        return None  # the other reader says why
    try:
        # One byte more than there should be, so that a longer file is noticed.
        data = os.pread(fd, offset + nbytes + 1, 0)
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(data) != offset + nbytes:
        return None
    key = data[:offset], ref.shape, ref.dtype
    dtype = _known.get(key)
    if dtype is None:
        dtype = _plain_type(data, ref)
        if dtype is None:
            return None
        if len(_known) >= _MOST_HEADERS:
            _known.clear()
        _known[key] = dtype
    return np.frombuffer(data, dtype, offset=offset).reshape(ref.shape or ())


def _plain_type(data: bytes, ref: DumpTensorRef) -> np.dtype | None:
    """The element type if the header is that of *ref*, in C order and our byte order."""
    expected = ref.dtype.numpy if ref.dtype is not None else None
    # A bool of another byte than 0 and 1 has to be mended.
    if expected is None or expected.kind == "b":
        return None
    try:
        header = parse_npy_header(data, len(data))
    except DamagedError:
        return None
    plain = header.dtype == expected and header.dtype.isnative and not header.fortran_order
    fits = header.shape == ref.shape and header.data_offset == ref.offset
    return expected if plain and fits else None
