"""The measurements of many small pairs of one size, as columns.

Columns are computed with the formulas of :mod:`divergraph.metrics.metrics` and
:mod:`divergraph.metrics.figures`, in their order of operations, so each value is theirs to the last
bit; and they are pickled in a tenth of the time that objects take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
        device, golden = (SideColumns._make(each[rows] for each in side) for side in self[:2])
        return SumColumns._make((device, golden, *(column[rows] for column in self[2:])))


@dataclass(frozen=True, slots=True)
class SmallTable:
    """The finished rows; ``numbers`` are the numbers of their pairs."""

    numbers: list[int]
    elements: int
    rtol: float
    reals: Float64
    counts: Int64

    def __iter__(self) -> Iterator[tuple[MetricSet, Figures]]:
        """The metrics and figures of each row."""
        elements, rtol = self.elements, self.rtol
        reals, counts = (zip(*each.tolist(), strict=True) for each in (self.reals, self.counts))
        for (  # in the order in which they are made below
            (cosine, worst, relative, distance, divergence, *rest),
            (device_zeros, golden_zeros, equal, place),
        ) in zip(reals, counts, strict=True):
            mean_x, std_x, mean_y, std_y, mean_error, root, worst_relative, mean_relative = rest[:8]
            low_x, high_x, low_y, high_y, atol, worst_x, worst_y, snr, psnr, by_cosine = rest[8:]
            yield (
                MetricSet(
                    cosine,
                    worst,
                    relative,
                    distance,
                    divergence,
                    (mean_x, std_x, mean_y, std_y),
                    mean_error,
                    root,
                    worst_relative,
                    mean_relative,
                    elements,
                ),
                Figures(
                    SideFigures(low_x, high_x, mean_x, std_x, device_zeros),
                    SideFigures(low_y, high_y, mean_y, std_y, golden_zeros),
                    atol,
                    rtol,
                    equal,
                    0,
                    -1,
                    place,
                    worst_x,
                    worst_y,
                    snr,
                    psnr,
                    None,
                    by_cosine,
                ),
            )


@dataclass(eq=False, slots=True)
class PairMeasurements(Sequence[Measurement]):
    """The measurements of many pairs: single ones by number, and tables with what their rows have
    in common. Small when pickled; the objects are created when they are asked for."""

    single: dict[int, Measurement]
    tables: list[tuple[SmallTable, Measurement]]

    def __len__(self) -> int:
        return len(self.single) + sum(len(table.numbers) for table, _ in self.tables)

    def __iter__(self) -> Iterator[Measurement]:
        found = dict(self.single)
        for table, common in self.tables:
            shape, overflow = common.shape, common.overflow
            device, golden = common.device_dtype, common.golden_dtype
            for number, (metrics, figures) in zip(table.numbers, table, strict=True):
                found[number] = Measurement(
                    metrics, figures, None, "", shape, overflow, device, golden
                )
        return iter([found[number] for number in range(len(found))])

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
    x, y = columns.device, columns.golden
    counts = np.array([x.zeros, y.zeros, columns.equal, columns.place])
    reals = np.array(
        [
            *_metrics(columns, _divergence(second), elements),
            x.low,
            x.high,
            y.low,
            y.high,
            _tolerances(columns, elements, want),
            columns.worst_device,
            columns.worst_golden,
            *_ratios(columns, elements),
        ]
    )
    return SmallTable(numbers, elements, want.rtol, reals, counts)


def _metrics(columns: SumColumns, divergence: Float64, elements: int) -> Iterator[Float64]:
    """In the order of the fields of :class:`MetricSet`."""
    x, y = columns.device, columns.golden
    yield np.clip(columns.product / np.sqrt(x.square) / np.sqrt(y.square), -1.0, 1.0)
    yield columns.worst
    yield columns.relative
    yield np.sqrt(columns.square_error / y.square)
    yield np.where(np.abs(divergence) < EPSILON, 0.0, divergence)
    for side in (x, y):
        yield side.total / elements
        yield np.sqrt(np.maximum(side.spread, 0.0) / elements)
    yield columns.absolute / elements
    yield np.sqrt(columns.square_error / elements)
    yield columns.worst_relative
    yield columns.relative / elements


def _divergence(second: Float64) -> Float64:
    device, golden, weighted = second
    # Not numpy's logarithm, whose last bit may differ.
    logs = np.array([math.log(value) for value in (device / golden).tolist()])
    found: Float64 = weighted / device - logs
    return found


def _ratios(columns: SumColumns, elements: int) -> Iterator[Float64]:
    """Signal to noise, peak signal to noise, and the cosine's distance."""
    square, noise = columns.golden.square, columns.square_error
    width = columns.golden.high.astype(np.float64) - columns.golden.low
    level = _log2(noise)
    for signal in (square, width * width * elements):
        yield np.where(noise == 0.0, math.inf, DECIBELS * (_log2(signal) - level))
    x, y = np.sqrt(columns.device.square), np.sqrt(square)
    close = (noise - (x - y) * (x - y)) / x / y / 2.0
    far = 1.0 - columns.product / x / y
    yield np.clip(np.where(noise <= x * y, close, far), 0.0, 2.0)


def _log2(values: Float64) -> Float64:
    return np.array([math.log2(value) if value else 0.0 for value in values.tolist()])


def _tolerances(columns: SumColumns, elements: int, want: Wanted) -> Float64:
    """As :func:`divergraph.metrics.measure.tolerance`."""
    if want.atol is not None:
        return np.full(len(columns.worst), want.atol)
    root = np.sqrt(columns.golden.square / elements)
    found: Float64 = np.where(root > 0.0, want.rtol * root, ZERO_TOLERANCE)
    return found
