"""Many small ``.npy`` files read straight into the rows that are measured together.

For ten thousand pairs, creating objects for files and arrays takes longer than the arithmetic. So
the bytes of files with the same header are collected, and measured as soon as there are enough of
them, while they are still in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from divergraph.metrics.pairs.small_pairs import MOST_ELEMENTS, SMALL_TYPES, rows_at_once
from divergraph.values.array_types import Array
from divergraph.values.zero_points import may_move
from importers.dumps.arrays.npy import PlainNpy, small_npy_bytes

_PILED = SMALL_TYPES - {np.dtype(np.float16)}
"""float16 is not among them: each tensor is checked for overflow by itself."""


class NpyFiles(NamedTuple):
    """Two ``.npy`` files that were not opened yet, and their sizes as far as known."""

    device_path: str
    golden_path: str
    device_bytes: int = 0
    golden_bytes: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes read for it, as far as known."""
        return self.device_bytes + self.golden_bytes


Contents: TypeAlias = tuple[tuple[bytes, PlainNpy], tuple[bytes, PlainNpy]]
"""For each side the bytes of the file, and its header."""


def contents_of(files: NpyFiles) -> Contents | None:
    """The contents of two small plain files of one shape; None for any others, and for 8-bit
    integers whose zero point may have been moved."""
    device = small_npy_bytes(files.device_path, files.device_bytes)
    golden = device and small_npy_bytes(files.golden_path, files.golden_bytes)
    if device is None or golden is None or device[1].shape != golden[1].shape:
        return None
    if device[1] is not golden[1] and may_move(device[1].dtype, golden[1].dtype):
        return None
    return device, golden


class Pile:
    """Pairs of files whose device headers are all the same, and whose golden headers are, too."""

    def __init__(self, device: PlainNpy, golden: PlainNpy) -> None:
        self.device, self.golden = device, golden
        self.shape = golden.shape
        self.numbers: list[int] = []
        self._bytes: tuple[list[bytes], list[bytes]] = [], []
        size = (golden.length - golden.offset) // golden.dtype.itemsize
        fits = size <= MOST_ELEMENTS and device.dtype in _PILED and golden.dtype in _PILED
        self.most = rows_at_once(size) if fits else 0
        """How many pairs are measured together; 0 if these cannot be."""

    def add(self, number: int, device: bytes, golden: bytes) -> None:
        """Add pair *number* with the bytes of its files."""
        self.numbers.append(number)
        self._bytes[0].append(device)
        self._bytes[1].append(golden)

    def rows(self) -> tuple[Array, Array]:
        """The values of both sides, a row each pair."""
        both = zip(self._bytes, (self.device, self.golden), strict=True)
        device, golden = (_rows(rows_of_files, plain) for rows_of_files, plain in both)
        return device, golden


class Piles:
    """Pairs of files, grouped by their headers."""

    def __init__(self) -> None:
        self._piles: dict[tuple[int, int], Pile] = {}
        self._full: Pile | None = None

    def take(self, number: int, contents: Contents) -> bool:
        """Add pair *number*; False if it cannot be measured together with others."""
        device, golden = contents
        key = id(device[1]), id(golden[1])
        pile = self._piles.get(key)
        if pile is None:
            pile = self._piles[key] = Pile(device[1], golden[1])
        if not pile.most:
            return False
        pile.add(number, device[0], golden[0])
        if len(pile.numbers) == pile.most:
            self._full = self._piles.pop(key)
        return True

    def full(self) -> Pile | None:
        """The pile that the last pair filled, returned once."""
        pile, self._full = self._full, None
        return pile

    def rest(self) -> Iterator[Pile]:
        """The piles that are not full."""
        return (pile for pile in self._piles.values() if pile.numbers)


def _rows(data: list[bytes], plain: PlainNpy) -> Array:
    content = np.frombuffer(b"".join(data), np.uint8).reshape(len(data), plain.length)
    values = content[:, plain.offset :]
    # Bytes before the values that are no multiple of the element size would misalign them.
    fits = plain.length % plain.dtype.itemsize == 0 and plain.offset % plain.dtype.itemsize == 0
    return (values if fits else np.ascontiguousarray(values)).view(plain.dtype)
