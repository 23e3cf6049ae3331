"""A column of texts as one array of bytes, and the places of the texts in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_END = b"\0"
"""Ends each text of a column."""
_MANY = 500
"""So many texts are looked for one by one, in the checksums of all; for more of them a table of
all texts is made."""


@dataclass(frozen=True, eq=False)
class PackedTexts(Sequence[str]):
    """Texts as UTF-8 in one ``column``: text i ends before ``ends[i]``.

    A text is made when it is asked for, and all of them once somebody goes through them: a million
    as Python values take 100 MB and as many milliseconds.
    """

    column: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> PackedTexts:
        """The column of these *texts*.

        Raises:
            ValueError: a text holds the character that ends texts.
        """
        whole = "\0".join([*texts, ""]).encode("utf-8", "surrogatepass")
        packed = cls.of_column(np.frombuffer(whole, dtype=np.uint8))
        if len(packed) != len(texts):
            raise ValueError("a text holds a NUL character")
        return packed

    @classmethod
    def of_column(cls, column: NDArray[np.uint8]) -> PackedTexts:
        """The texts of a *column*."""
        return cls(column, np.flatnonzero(column == 0))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """One text, or some."""
        if "_all" in self.__dict__:
            return self._all[index]
        numbers = range(len(self))[index]
        if not isinstance(numbers, range):
            return self.bytes_of(numbers).decode("utf-8", "surrogatepass")
        if numbers.step == 1 and numbers:
            first, last = self._first(numbers[0]), int(self.ends[numbers[-1]])
            return _texts(self.column[first : last + 1])
        return tuple(self[number] for number in numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __contains__(self, text: object) -> bool:
        return text in self._all

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedTexts):
            return np.array_equal(self.column, other.column)
        return self._all == other

    __hash__ = None  # type: ignore[assignment]

    def bytes_of(self, number: int) -> bytes:
        """Text *number* as UTF-8."""
        return self.column[self._first(number) : self.ends[number]].tobytes()

    def checksums(self) -> NDArray[np.uint32]:
        """The CRC-32 of each text, by which its place is looked for."""
        texts = self.column.tobytes().split(_END)[:-1]
        return np.fromiter(map(crc32, texts), np.uint32, len(texts))

    def _first(self, number: int) -> int:
        return int(self.ends[number - 1]) + 1 if number else 0

    @cached_property
    def _all(self) -> tuple[str, ...]:
        return _texts(self.column)


@dataclass(frozen=True, eq=False)
class PlacesOfTexts(Mapping[str, int]):
    """The place of each of *texts*, which are all different, by itself.

    A few are looked for in the *checksums* of all; then a table of all is made.
    """

    texts: PackedTexts
    checksums: NDArray[np.uint32]
    _asked: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __getitem__(self, text: str) -> int:
        if "_table" in self.__dict__ or next(self._asked) >= _MANY:
            return self._table[text]
        wanted = text.encode("utf-8", "surrogatepass")
        for place in np.flatnonzero(self.checksums == crc32(wanted)).tolist():
            if self.texts.bytes_of(place) == wanted:
                return int(place)
        raise KeyError(text)

    @cached_property
    def _table(self) -> dict[str, int]:
        return dict(zip(self.texts, range(len(self.texts)), strict=True))


def _texts(column: NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple(column.tobytes().decode("utf-8", "surrogatepass").split("\0")[:-1])
