"""Tensors as one row of elements, block by block, without a copy of the whole.

An array that does not lie in C order (a layout undone by a transposition) is brought into
order block by block. Pages of mapped files are given back on the way, so that a tensor of
many gigabytes takes no more memory than its blocks.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 21
"""Elements of which a copy is made at once: both sweeps read it."""

_KEPT_BYTES = 16 << 20
"""Bytes of a mapped file that are kept in memory at most."""


class Strided:
    """The elements of an array in C order, of which slices are copied when asked for.

    What follows a slice is copied with it: elements that are neighbours in memory may be far
    apart in C order, and each copy of few elements touches as much memory as one of many.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.dtype = array.dtype
        self._start = 0
        self._copied = np.empty(0, array.dtype)

    def __len__(self) -> int:
        return self.array.size

    def __getitem__(self, part: slice) -> NDArray[Any]:
        start, stop, _ = part.indices(len(self))
        stop = max(start, stop)
        begin = start - self._start
        if begin < 0 or stop - self._start > len(self._copied):
            end = min(max(stop, start + _AT_ONCE), len(self))
            self._copied, self._start, begin = _piece(self.array, start, end), start, 0
        return self._copied[begin : begin + stop - start]


Flat = NDArray[Any] | Strided
"""A flat array, or what gives flat arrays for its slices."""


def flat(array: NDArray[Any]) -> Flat:
    """The elements of *array* in C order."""
    if array.flags.c_contiguous or array.size <= _AT_ONCE:
        return array.reshape(-1)
    return Strided(array)


def flat_float32(array: NDArray[Any]) -> Flat:
    """As :func:`flat`, small types as float32, which holds all their values."""
    if array.dtype.itemsize < 4 and array.size <= _AT_ONCE:
        array = array.astype(np.float32)
    return flat(array)


def blocks(size: int, x: Flat, y: Flat) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """Blocks of *size* elements of two flat arrays of one length, and where each begins."""
    mappings = [found for found in map(_mapping, (x, y)) if found is not None]
    often = max(1, _KEPT_BYTES // (size * max(x.dtype.itemsize, y.dtype.itemsize)))
    for number, begin in enumerate(range(0, len(x), size), 1):
        yield begin, x[begin : begin + size], y[begin : begin + size]
        if number % often == 0:
            for mapping in mappings:
                mapping.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: NDArray[Any]) -> bool:
    """True for an array that lies in a large mapped file: any process reads a part of it at
    hardly more cost than that of the part."""
    return _mapping(array) is not None


def _piece(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    if array.ndim <= 1:
        return np.ascontiguousarray(array.reshape(-1)[start:stop])
    inner = prod(array.shape[1:])
    first, last = start // inner, -(-stop // inner)
    if last - first <= 1:
        return _piece(array[first], start - first * inner, stop - first * inner)
    if inner <= stop - start:
        rows = array[first:last].reshape(-1)
        # Some rows need no copy to be one row, but still lie apart.
        return np.ascontiguousarray(rows[start - first * inner : stop - first * inner])
    # Long rows: of the first and the last only what is asked for.
    border = last * inner - inner
    return np.concatenate([_piece(array, start, border), _piece(array, border, stop)])


def _mapping(values: Flat) -> mmap.mmap | None:
    """The mapped file whose pages can be given back without losing anything."""
    base: Any = values.array if isinstance(values, Strided) else values
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if not isinstance(base, mmap.mmap) or len(base) <= _KEPT_BYTES:
        return None
    with memoryview(base) as view:
        # Pages of a writable mapping may hold changes.
        return base if view.readonly and hasattr(mmap, "MADV_DONTNEED") else None
