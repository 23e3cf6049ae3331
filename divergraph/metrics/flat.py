"""Tensors as flat arrays, block by block, without a copy of the whole. An array that is not in C
order (a layout undone by a transposition) is copied into order block by block. Pages of mapped
files are released on the way, so that a tensor of many gigabytes takes no more memory than its
blocks."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from divergraph.values.array_types import Array
from importers.source import UnnamedFile, advise

_AT_ONCE = 1 << 21
"""Elements copied at a time; both sweeps read the copy."""

_COPIED_BYTES = 32 << 20
"""The same in bytes, for an array in a mapped file."""

_KEPT_BYTES = 16 << 20
"""The most bytes of a mapped file that stay in memory."""


class Strided:
    """The elements of an array in C order, of which slices are copied when asked for. A slice is
    valid until the next one is taken. More than the slice is copied at once: neighbours in memory
    may be far apart in C order, so copying few elements touches as much memory as copying many."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype = array.dtype
        self._mapping = _mapping(array)
        # Pages of a file were released, so that touching them again costs even more.
        self._at_once = _AT_ONCE if self._mapping is None else _COPIED_BYTES // array.itemsize
        self._start = self._length = 0
        self._room = np.empty(0, array.dtype)

    def __len__(self) -> int:
        return self.array.size

    def __getitem__(self, part: slice) -> Array:
        start, stop, _ = part.indices(len(self))
        stop = max(start, stop)
        begin = start - self._start
        if begin < 0 or stop - self._start > self._length:
            end = min(max(stop, start + self._at_once), len(self))
            if end - start > len(self._room):
                self._room = np.empty(end - start, self.dtype)
            self._start, self._length, begin = start, end - start, 0
            _copy(self.array, start, end, self._room[: self._length], self._mapping)
        return self._room[begin : begin + stop - start]


Flat = Array | Strided
"""A flat array, or an object whose slices are flat arrays."""


def flat(array: Array) -> Flat:
    """The elements of *array* in C order."""
    if array.flags.c_contiguous or array.size <= _AT_ONCE:
        return array.reshape(-1)
    return Strided(array)


def flat_float32(array: Array) -> Flat:
    """As :func:`flat`, with types of up to 16 bits as float32, which holds all their values."""
    if array.dtype.itemsize < 4 and array.size <= _AT_ONCE:
        array = array.astype(np.float32)
    return flat(array)


def blocks(size: int, x: Flat, y: Flat) -> Iterator[tuple[int, Array, Array]]:
    """Blocks of *size* elements of two flat arrays of one length, and where each begins."""
    mappings = [mapping for mapping in map(_mapping, (x, y)) if mapping is not None]
    often = max(1, _KEPT_BYTES // (size * max(x.dtype.itemsize, y.dtype.itemsize)))
    for number, begin in enumerate(range(0, len(x), size), 1):
        yield begin, x[begin : begin + size], y[begin : begin + size]
        if number % often == 0:
            for mapping in mappings:
                advise(mapping, "DONTNEED")


def is_mapped(array: Array) -> bool:
    """True for an array in a large mapped file, of which any process can read a part cheaply."""
    mapping = _mapping(array)
    return mapping is not None and not isinstance(mapping, UnnamedFile)


def _copy(array: Array, start: int, stop: int, out: Array, mapping: mmap.mmap | None) -> None:
    """Copy the elements from *start* to *stop* in C order."""
    if array.ndim <= 1:
        _copy_rows(array.reshape(-1)[start:stop], out, mapping)
        return
    inner = prod(array.shape[1:])
    first, last = start // inner, -(-stop // inner)
    if last - first == 1:
        _copy(array[first], start - first * inner, stop - first * inner, out, mapping)
        return
    # Only the wanted part of the first and the last row.
    if begin := start % inner:
        _copy(array[first], begin, inner, out[: inner - begin], mapping)
        out, first = out[inner - begin :], first + 1
    if rest := stop % inner:
        last -= 1
        _copy(array[last], 0, rest, out[len(out) - rest :], mapping)
        out = out[: len(out) - rest]
    if first < last:
        rows = array[first:last]
        _copy_rows(rows, out.reshape(rows.shape), mapping)


def _copy_rows(rows: Array, out: Array, mapping: mmap.mmap | None) -> None:
    """Copy all of *rows* in the order of the file, releasing its pages."""
    steps = [
        abs(step) if size > 1 else 0 for step, size in zip(rows.strides, rows.shape, strict=True)
    ]
    axis = int(np.argmax(steps))
    if mapping is None or steps[axis] * rows.shape[axis] <= _KEPT_BYTES:
        out[...] = rows
        return
    before, some = (slice(None),) * axis, max(1, _KEPT_BYTES // steps[axis])
    for begin in range(0, rows.shape[axis], some):
        part = (*before, slice(begin, begin + some))
        out[part] = rows[part]
        advise(mapping, "DONTNEED")


def _mapping(values: Flat) -> mmap.mmap | None:
    """The mapped file whose pages can be released without losing changes; None without one."""
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
