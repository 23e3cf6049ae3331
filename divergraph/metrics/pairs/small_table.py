"""The measurements of many small pairs of one size, as columns.

Columns are computed with the formulas of :mod:`divergraph.metrics.metrics` and
:mod:`divergraph.metrics.figures`, in their order of operations, so each value is theirs to the last
bit; and they are pickled in a tenth of the time that objects take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from divergraph.metrics.figures import DECIBELS
from divergraph.metrics.measure import ZERO_TOLERANCE, Wanted
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.sums import EPSILON
from divergraph.values.array_types import Bool, Float32, Float64, Int64
from graphstore.model import Figures, MetricSet, SideFigures


class SideColumns(NamedTuple):
    """The columns of :class:`divergraph.metrics.sums.SideSums`, and zeros."""

    total: Float64
    square: Float64
    spread: Float64
    low: Float32
    high: Float32
    zeros: Int64


class SumColumns(NamedTuple):
    """The columns of :class:`divergraph.metrics.sums.Sums`, a row for each of many pairs
    of finite values; ``worst`` is at ``place`` and between the two values."""

    device: SideColumns
    golden: SideColumns
    product: Float64
    square_error: Float64
    absolute: Float64
    worst: Float64
    relative: Float64
    worst_relative: Float64
    equal: Int64
    place: Int64
    worst_device: Float64
    worst_golden: Float64

    def taken(self, rows: NDArray[np.intp]) -> SumColumns:
        """These rows alone."""
        device, golden = (SideColumns._make(column[rows] for column in side) for side in self[:2])
        return SumColumns._make((device, golden, *(column[rows] for column in self[2:])))


Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""A value for each row, by the name of the field it is of."""


@dataclass(frozen=True, slots=True)
class SmallTable:
    """The finished rows; ``numbers`` are the numbers of their pairs.

    ``metrics``, ``device``, ``golden`` and ``figures`` have the fields of :class:`MetricSet`, of
    either :class:`SideFigures` and of :class:`Figures` that differ from row to row.
    """

    numbers: list[int]
    elements: int
    rtol: float
    metrics: Columns
    device: Columns
    golden: Columns
    figures: Columns

    def __iter__(self) -> Iterator[tuple[MetricSet, Figures]]:
        """The metrics and figures of each row."""
        parts = map(_rows, (self.metrics, self.device, self.golden, self.figures))
        for metrics, device, golden, figures in zip(*parts, strict=True):
            deviation = device["mean"], device["std"], golden["mean"], golden["std"]
            yield (
                MetricSet(**metrics, standard_deviation=deviation, elements=self.elements),
                Figures(
                    device=SideFigures(**device),
                    golden=SideFigures(**golden),
                    rtol=self.rtol,
                    bad=0,
                    first_bad=-1,
                    **figures,
                ),
            )


def _rows(columns: Columns) -> Iterator[dict[str, Any]]:
    names = tuple(columns)
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(names, values, strict=True))


@dataclass(eq=False, slots=True)
class PairMeasurements(Sequence[Measurement]):
    """The measurements of many pairs: single ones by number, and tables with what their rows have
    in common. Small when pickled; the objects are created when they are asked for."""

    single: dict[int, Measurement]
    tables: list[tuple[SmallTable, Measurement]]

    def __len__(self) -> int:
        return len(self.single) + sum(len(table.numbers) for table, _ in self.tables)

    def __iter__(self) -> Iterator[Measurement]:
        measurements = dict(self.single)
        for table, common in self.tables:
            shape, overflow = common.shape, common.overflow
            device, golden = common.device_dtype, common.golden_dtype
            for number, (metrics, figures) in zip(table.numbers, table, strict=True):
                measurements[number] = Measurement(
                    metrics, figures, None, "", shape, overflow, device, golden
                )
        return iter([measurements[number] for number in range(len(measurements))])

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]


def are_done(columns: SumColumns, elements: int, want: Wanted) -> Bool:
    """Rows that need no notes and no second look: neither side counts as zero, and no element is
    bad."""
    usual: Bool = columns.worst <= _tolerances(columns, elements, want)
    for side in columns[:2]:
        usual &= np.sqrt(side.square) > EPSILON
    return usual


def finished(
    numbers: list[int], columns: SumColumns, second: Float64, elements: int, want: Wanted
) -> SmallTable:
    """The table of rows that :func:`are_done`. *second* has the rows of the first three
    fields of :class:`divergraph.metrics.sums.SecondSums`."""
    square, noise = columns.golden.square, columns.square_error
    x, y = np.sqrt(columns.device.square), np.sqrt(square)
    divergence = _divergence(second)
    width = columns.golden.high.astype(np.float64) - columns.golden.low
    close = (noise - (x - y) * (x - y)) / x / y / 2.0
    far = 1.0 - columns.product / x / y
    return SmallTable(
        numbers,
        elements,
        want.rtol,
        metrics={
            "cosine_similarity": np.clip(columns.product / x / y, -1.0, 1.0),
            "max_absolute_error": columns.worst,
            "accumulated_relative_error": columns.relative,
            "relative_euclidean_distance": np.sqrt(noise / square),
            "kullback_leibler_divergence": np.where(np.abs(divergence) < EPSILON, 0.0, divergence),
            "mean_absolute_error": columns.absolute / elements,
            "root_mean_square_error": np.sqrt(noise / elements),
            "max_relative_error": columns.worst_relative,
            "mean_relative_error": columns.relative / elements,
        },
        device=_side(columns.device, elements),
        golden=_side(columns.golden, elements),
        figures={
            "atol": _tolerances(columns, elements, want),
            "equal": columns.equal,
            "worst": columns.place,
            "worst_device": columns.worst_device,
            "worst_golden": columns.worst_golden,
            "snr": _decibels(square, noise),
            "psnr": _decibels(width * width * elements, noise),
            "cosine_distance": np.clip(np.where(noise <= x * y, close, far), 0.0, 2.0),
        },
    )


def _side(side: SideColumns, elements: int) -> Columns:
    return {
        "low": side.low,
        "high": side.high,
        "mean": side.total / elements,
        "std": np.sqrt(np.maximum(side.spread, 0.0) / elements),
        "zeros": side.zeros,
    }


def _decibels(signal: Float64, noise: Float64) -> Float64:
    return np.where(noise == 0.0, math.inf, DECIBELS * (_log2(signal) - _log2(noise)))


def _divergence(second: Float64) -> Float64:
    device, golden, weighted = second
    # Not numpy's logarithm, whose last bit may differ.
    logs = np.array([math.log(value) for value in (device / golden).tolist()])
    divergence: Float64 = weighted / device - logs
    return divergence


def _log2(values: Float64) -> Float64:
    return np.array([math.log2(value) if value else 0.0 for value in values.tolist()])


def _tolerances(columns: SumColumns, elements: int, want: Wanted) -> Float64:
    """As :func:`divergraph.metrics.measure.tolerance`."""
    if want.atol is not None:
        return np.full(len(columns.worst), want.atol)
    root = np.sqrt(columns.golden.square / elements)
    tolerances: Float64 = np.where(root > 0.0, want.rtol * root, ZERO_TOLERANCE)
    return tolerances
