"""Metric sets and error splits as columns: a row for each that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Bool, Coded, Float, Numbers
from graphstore.model import SPLIT_NUMBERS, ErrorSplit, Guilt, Metric, MetricSet, Role

Notes: TypeAlias = tuple[tuple[Metric, str], ...]

SPREAD = ("device_mean", "device_std", "golden_mean", "golden_std")
"""The four numbers of ``standard_deviation``, in its order."""
FIGURES = tuple(
    name
    for metric in Metric
    for name in (SPREAD if metric is Metric.STANDARD_DEVIATION else (metric.value,))
)
"""The names of the numbers of a metric set."""
COUNTS = tuple(field.name for field in fields(MetricSet) if field.type == "int")


class ColumnGroup:
    """A dataclass of columns with as many rows each: arrays, groups, or these by name."""

    __slots__ = ()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The columns *parts* below each other."""
        return cls(*(_joined([getattr(part, name) for part in parts]) for name in _names(cls)))

    def take(self, rows: NDArray[Any]) -> Self:
        """The columns of the *rows* only; a mask or numbers."""
        return type(self)(*(_taken(getattr(self, name), rows) for name in _names(type(self))))


def _names(group: Any) -> list[str]:
    return [field.name for field in fields(group)]


def _joined(columns: Sequence[Any]) -> Any:
    first = columns[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    if isinstance(first, Mapping):
        return {name: _joined([column[name] for column in columns]) for name in first}
    return type(first).joined(columns)


def _taken(column: Any, rows: NDArray[Any]) -> Any:
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, Mapping):
        return {name: _taken(part, rows) for name, part in column.items()}
    return column.take(rows)


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumns(ColumnGroup):
    """Metric sets: ``numbers`` by :data:`FIGURES`, ``counts`` by :data:`COUNTS`."""

    numbers: Mapping[str, Float]
    counts: Mapping[str, Numbers]
    notes: Coded[Notes]

    @classmethod
    def empty(cls) -> MetricColumns:
        """Columns without a row."""
        none = np.zeros(0)
        counts = dict.fromkeys(COUNTS, none.astype(np.int64))
        return cls(dict.fromkeys(FIGURES, none), counts, Coded.of(()))

    def listed(self, rows: NDArray[Any]) -> list[MetricSet]:
        """The values of *rows*."""
        figures: dict[str, Iterable[Any]] = {
            name: self.numbers[name][rows].tolist() for name in FIGURES
        }
        spread = zip(*(figures[name] for name in SPREAD), strict=True)
        figures |= {name: self.counts[name][rows].tolist() for name in COUNTS}
        figures |= {
            Metric.STANDARD_DEVIATION.value: spread,
            "notes": map(dict, self.notes.listed(rows)),
        }
        return list(map(MetricSet, *(figures[field.name] for field in fields(MetricSet))))

    def noted(self, metric: Metric, note: str) -> Bool:
        """The rows in which *metric* has this *note*."""
        return self.notes.where(lambda notes: (metric, note) in notes)

    @property
    def broken(self) -> Bool:
        """The rows with NaN or Inf on the device that golden has not."""
        more: Bool = self.counts["device_nonfinite"] > self.counts["golden_nonfinite"]
        return more

    @property
    def finite(self) -> Bool:
        """The rows with finite values only, on both sides."""
        none: Bool = (self.counts["device_nonfinite"] == 0) & (self.counts["golden_nonfinite"] == 0)
        return none

    @property
    def share_different(self) -> Float:
        """The share of boolean elements that differ."""
        share: Float = self.counts["different"] / np.maximum(self.counts["elements"], 1)
        return share


@dataclass(frozen=True, slots=True, eq=False)
class OptionalNumbers(ColumnGroup):
    """Numbers, some of which are not known; those may be NaN for another reason, too."""

    values: Float
    known: Bool

    def listed(self, rows: NDArray[Any]) -> list[float | None]:
        """The values of *rows*."""
        there = zip(self.values[rows].tolist(), self.known[rows].tolist(), strict=True)
        return [value if is_set else None for value, is_set in there]


@dataclass(frozen=True, slots=True, eq=False)
class SplitColumns(ColumnGroup):
    """Error splits, without group and reference; ``numbers`` by the names of their numbers."""

    roles: Coded[Role]
    guilts: Coded[Guilt]
    numbers: Mapping[str, OptionalNumbers]
    failures: Coded[str]

    @classmethod
    def empty(cls) -> SplitColumns:
        """Columns without a row."""
        none = OptionalNumbers(np.zeros(0), np.zeros(0, dtype=np.bool_))
        return cls(Coded.of(()), Coded.of(()), dict.fromkeys(SPLIT_NUMBERS, none), Coded.of(()))

    def listed(self, rows: NDArray[Any]) -> list[ErrorSplit]:
        """The values of *rows*."""
        columns: dict[str, Any] = {
            "role": self.roles.listed(rows),
            "guilt": self.guilts.listed(rows),
            "failure": self.failures.listed(rows),
            **{name: self.numbers[name].listed(rows) for name in SPLIT_NUMBERS},
        }
        named = [(field.name, field.default) for field in fields(ErrorSplit)]
        return list(
            map(ErrorSplit, *(columns.get(name, repeat(default)) for name, default in named))
        )
