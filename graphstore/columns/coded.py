"""Columns of few different values, and of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Bool: TypeAlias = NDArray[np.bool_]
Float: TypeAlias = NDArray[np.float64]
Int: TypeAlias = NDArray[np.int32]
Codes: TypeAlias = NDArray[Any]
"""Places in a list of values, in the smallest type that holds them."""
Numbers: TypeAlias = NDArray[np.int64]

T = TypeVar("T")
_Other = TypeVar("_Other")


@dataclass(frozen=True, slots=True, eq=False)
class Coded(Generic[T]):
    """A column of few different values: row i has ``values[codes[i]]``."""

    codes: Codes
    values: tuple[T, ...]

    @classmethod
    def of(cls, rows: Iterable[T]) -> Coded[T]:
        """The column of these rows."""
        code_of: dict[T, int] = {}
        codes = [code_of.setdefault(value, len(code_of)) for value in rows]
        return cls(small(np.asarray(codes, dtype=np.int32), len(code_of)), tuple(code_of))

    @classmethod
    def same(cls, value: T, rows: int) -> Coded[T]:
        """A column that has *value* in every row."""
        return cls(np.zeros(rows, dtype=np.int8), (value,))

    @classmethod
    def joined(cls, parts: Sequence[Coded[T]]) -> Coded[T]:
        """The columns *parts* below each other."""
        code_of: dict[T, int] = {}
        codes = []
        for part in parts:
            places = [code_of.setdefault(value, len(code_of)) for value in part.values]
            codes.append(np.asarray(places, dtype=np.int32)[part.codes])
        return cls(small(np.concatenate(codes), len(code_of)), tuple(code_of))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> T:
        value: T = self.values[int(self.codes[row])]
        return value

    def __iter__(self) -> Iterator[T]:
        return map(self.values.__getitem__, self.codes.tolist())

    def where(self, test: Callable[[T], bool]) -> Bool:
        """The rows whose value passes *test*, which is asked once for each different value."""
        return np.array([test(value) for value in self.values], dtype=np.bool_)[self.codes]

    def equal(self, value: object) -> Bool:
        """The rows that have *value*."""
        return self.where(lambda other: other == value)

    def mapped(self, change: Callable[[T], _Other]) -> Coded[_Other]:
        """The column of the changed values."""
        return Coded(self.codes, tuple(map(change, self.values)))

    def keyed(self, key: Callable[[T], float]) -> Float:
        """A number for each row."""
        return np.array([key(value) for value in self.values], dtype=np.float64)[self.codes]

    def take(self, rows: NDArray[Any]) -> Coded[T]:
        """The column of the *rows* only; a mask or numbers."""
        return Coded(self.codes[rows], self.values)

    def listed(self, rows: NDArray[Any]) -> list[T]:
        """The values of *rows*."""
        return list(map(self.values.__getitem__, self.codes[rows].tolist()))

    def counted(self) -> dict[T, int]:
        """How many rows have each value, those that some have, in the order they come first."""
        counts = np.bincount(self.codes, minlength=len(self.values)).tolist()
        codes, firsts = np.unique(self.codes, return_index=True)
        order = codes[np.argsort(firsts)].tolist()
        return {self.values[code]: counts[code] for code in order}


def small(codes: NDArray[Any], values: int) -> Codes:
    """*codes* of so many *values* in the smallest type."""
    kind = np.int8 if values < 2**7 else np.int16 if values < 2**15 else np.int32
    return codes.astype(kind)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A column of lists of texts: row i has ``names[n]`` for the n in
    ``numbers[start[i]:start[i + 1]]``."""

    start: Int
    numbers: Int
    names: Sequence[str]

    @classmethod
    def joined(cls, parts: Sequence[Lists]) -> Lists:
        """The columns *parts*, which share their names, below each other."""
        counts = np.concatenate([np.diff(part.start) for part in parts])
        numbers = np.concatenate([part.numbers for part in parts])
        return cls(starts(counts), numbers, parts[-1].names)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> tuple[str, ...]:
        numbers = self.numbers[self.start[row] : self.start[row + 1]].tolist()
        return tuple(map(self.names.__getitem__, numbers))

    def where(self, test: Callable[[str], bool]) -> Bool:
        """The rows of which some text passes *test*."""
        fits = np.fromiter(map(test, self.names), dtype=np.bool_, count=len(self.names))
        return any_in(self.start, fits[self.numbers])


def starts(counts: Sequence[int] | NDArray[Any]) -> Int:
    """Where each of the lists of these lengths starts, and the last one ends."""
    start = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=start[1:])
    return start


def any_in(start: Int, values: Bool) -> Bool:
    """For each list whether one of its *values* is true."""
    before = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    has_true: Bool = before[start[1:]] > before[start[:-1]]
    return has_true
