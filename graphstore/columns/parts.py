"""Metric sets and error splits as columns: a row for each that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, TypeAlias

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


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumns:
    """Metric sets: ``numbers`` by :data:`FIGURES`, ``counts`` by :data:`COUNTS`."""

    numbers: Mapping[str, Float]
    counts: Mapping[str, Numbers]
    notes: Coded[Notes]

    @classmethod
    def of(cls, sets: Sequence[MetricSet]) -> MetricColumns:
        """The columns of these values."""
        spread = np.array([one.standard_deviation for one in sets]).reshape(-1, len(SPREAD))
        numbers = {
            name: spread[:, SPREAD.index(name)]
            if name in SPREAD
            else np.array([getattr(one, name) for one in sets], dtype=np.float64)
            for name in FIGURES
        }
        counts = {
            name: np.array([getattr(one, name) for one in sets], dtype=np.int64) for name in COUNTS
        }
        return cls(numbers, counts, Coded.of(tuple(one.notes.items()) for one in sets))

    @classmethod
    def joined(cls, parts: Sequence[MetricColumns]) -> MetricColumns:
        """The columns *parts* below each other."""
        return cls(
            {name: np.concatenate([one.numbers[name] for one in parts]) for name in FIGURES},
            {name: np.concatenate([one.counts[name] for one in parts]) for name in COUNTS},
            Coded.joined([one.notes for one in parts]),
        )

    def take(self, rows: NDArray[Any]) -> MetricColumns:
        """The columns of the *rows* only; a mask or numbers."""
        return MetricColumns(
            {name: values[rows] for name, values in self.numbers.items()},
            {name: values[rows] for name, values in self.counts.items()},
            self.notes.take(rows),
        )

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
class OptionalNumbers:
    """Numbers, some of which are not known; those may be NaN for another reason, too."""

    values: Float
    known: Bool

    def take(self, rows: NDArray[Any]) -> OptionalNumbers:
        """Those of the *rows* only."""
        return OptionalNumbers(self.values[rows], self.known[rows])

    def listed(self, rows: NDArray[Any]) -> list[float | None]:
        """The values of *rows*."""
        there = zip(self.values[rows].tolist(), self.known[rows].tolist(), strict=True)
        return [value if is_set else None for value, is_set in there]


@dataclass(frozen=True, slots=True, eq=False)
class SplitColumns:
    """Error splits, without group and reference; ``numbers`` by the names of their numbers."""

    roles: Coded[Role]
    guilts: Coded[Guilt]
    numbers: Mapping[str, OptionalNumbers]
    failures: Coded[str]

    @classmethod
    def of(cls, splits: Sequence[ErrorSplit]) -> SplitColumns:
        """The columns of these values."""
        numbers = {}
        for name in SPLIT_NUMBERS:
            parts = [getattr(one, name) for one in splits]
            values = np.array(
                [np.nan if number is None else number for number in parts], np.float64
            )
            is_set = np.array([number is not None for number in parts], np.bool_)
            numbers[name] = OptionalNumbers(values, is_set)
        return cls(
            Coded.of(one.role for one in splits),
            Coded.of(one.guilt for one in splits),
            numbers,
            Coded.of(one.failure for one in splits),
        )

    @classmethod
    def joined(cls, parts: Sequence[SplitColumns]) -> SplitColumns:
        """The columns *parts* below each other."""
        return cls(
            Coded.joined([one.roles for one in parts]),
            Coded.joined([one.guilts for one in parts]),
            {
                name: OptionalNumbers(
                    np.concatenate([one.numbers[name].values for one in parts]),
                    np.concatenate([one.numbers[name].known for one in parts]),
                )
                for name in SPLIT_NUMBERS
            },
            Coded.joined([one.failures for one in parts]),
        )

    def take(self, rows: NDArray[Any]) -> SplitColumns:
        """The columns of the *rows* only; a mask or numbers."""
        return SplitColumns(
            self.roles.take(rows),
            self.guilts.take(rows),
            {name: values.take(rows) for name, values in self.numbers.items()},
            self.failures.take(rows),
        )

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
