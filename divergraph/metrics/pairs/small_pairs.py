"""Many small pairs of one size measured together.

Below some ten thousand elements numpy's calls cost more than the arithmetic, so pairs are stacked
as rows and each call does a hundred of them. Every row goes through the steps of
:mod:`divergraph.metrics.sweep`, so its sums are the same to the last bit. Rows that need other
steps (NaN and infinities, equal sides, constant ones) are left to it. Of the others, those without
bad elements are done; the rest is swept for its bad elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from divergraph.metrics.flat import Flat
from divergraph.metrics.measure import Wanted
from divergraph.metrics.metrics import KERNELS, Summed
from divergraph.metrics.pairs.small_table import (
    SideColumns,
    SmallTable,
    SumColumns,
    are_done,
    finished,
)
from divergraph.metrics.reductions import ROW, row_products
from divergraph.metrics.second_pass import Second, count_bad
from divergraph.metrics.sums import (
    EPSILON,
    FLOAT32_EPSILON,
    NO_SECOND,
    SecondSums,
    SideSums,
    Sums,
    Worst,
)
from divergraph.metrics.sweep import WIDE_SPREAD, Sweeper
from divergraph.values.array_types import Array, Bool, Float32, Float64, Int64

_UNASKED = (math.nan, math.nan, math.nan)

MOST_ELEMENTS = ROW
"""Elements of a small pair: those of a row of one BLAS call."""

SMALL_TYPES = frozenset(map(np.dtype, ("f4", "f2", "i1", "u1", "i2", "u2")))
"""Element types of small pairs: float32 holds their values."""

AT_ONCE = 65_536
"""Elements in a batch, which stay in the cache."""

_Ends = tuple[Float32, Float32]

_ONES = np.ones(ROW)


class _Sides(NamedTuple):
    """Both sides of all rows as float32, and as float64."""

    device: Float32
    golden: Float32
    x: Float64
    y: Float64


class KnownSums(Sweeper):
    """Takes the place of a sweeper for one pair whose sums are known, except for its bad
    elements."""

    def __init__(self, sums: Sums, divergence: tuple[float, float, float]) -> None:
        self._sums, self._divergence = sums, divergence

    def both(
        self, device: Flat, golden: Flat, ask: Callable[[Sums], Second | None]
    ) -> tuple[Sums, SecondSums]:
        """The sums of both sweeps."""
        second = ask(self._sums)
        if second is None:
            return self._sums, NO_SECOND
        bad, first_bad = 0, -1
        if self._sums.worst_absolute > second.atol:
            with np.errstate(all="ignore"):
                bad, first_bad = count_bad(device[:], golden[:], second, 0)
        divergence = self._divergence if second.scales is not None else _UNASKED
        return self._sums, SecondSums(*divergence, bad, first_bad)


def measured_together(
    numbers: Sequence[int], pairs: Sequence[tuple[Array, Array]], want: Wanted
) -> tuple[list[SmallTable], Mapping[int, KnownSums]]:
    """Measures pairs of floats or small integers, all of one size up to :data:`MOST_ELEMENTS`:
    tables of the pairs that are done, and known sums for others, by their *numbers*. Pairs in
    neither are to be measured one by one."""
    step = rows_at_once(pairs[0][0].size)
    tables: list[SmallTable] = []
    known_sums: dict[int, KnownSums] = {}
    for begin in range(0, len(pairs), step):
        part = slice(begin, begin + step)
        device, golden = (
            np.array([pair[side].reshape(-1) for pair in pairs[part]]) for side in (0, 1)
        )
        table, some = measured_rows(numbers[part], device, golden, want)
        tables += table
        known_sums |= some
    return tables, known_sums


def rows_at_once(size: int) -> int:
    """How many pairs of *size* elements are best measured together."""
    return max(1, AT_ONCE // size)


@np.errstate(all="ignore")
def measured_rows(
    pairs: Sequence[int], x: Array, y: Array, want: Wanted
) -> tuple[list[SmallTable], Mapping[int, KnownSums]]:
    """As :func:`measured_together`, of the pairs of these numbers that are the rows of *x* and
    *y*, the device's and golden's."""
    numbers = np.array(pairs)
    device, golden = (side.astype(np.float32, copy=False) for side in (x, y))
    size = device.shape[1]
    equal = device == golden
    ends = [_ends(side) for side in (device, golden)]
    rows = np.flatnonzero(_are_plain(equal, ends))
    if not len(rows):
        return [], {}
    if len(rows) < len(device):
        device, golden, numbers, equal = device[rows], golden[rows], numbers[rows], equal[rows]
        ends = [(low[rows], high[rows]) for low, high in ends]
    sides = _Sides(device, golden, device.astype(np.float64), golden.astype(np.float64))
    columns = _columns(sides, equal, ends)
    second = _divergences(sides, columns)
    done = are_done(columns, size, want)
    known_sums = {
        int(numbers[row]): KnownSums(_sums(columns, row, size), tuple(second[:, row].tolist()))
        for row in np.flatnonzero(~done).tolist()
    }
    if known_sums:
        rows = np.flatnonzero(done)
        if not len(rows):
            return [], known_sums
        numbers, columns, second = numbers[rows], columns.taken(rows), second[:, rows]
    table = finished(numbers.tolist(), columns, second, size, want)
    return [_with_other_metrics(table, columns, size)], known_sums


def _with_other_metrics(table: SmallTable, columns: SumColumns, size: int) -> SmallTable:
    """*table* with the metrics that have no formula for columns, row by row."""
    others = [metric for metric in KERNELS if metric.value not in table.metrics]
    if not others:
        return table
    rows = [Summed(_sums(columns, row, size), 0.0, {}) for row in range(len(table.numbers))]
    more = {metric.value: np.array([KERNELS[metric](row) for row in rows]) for metric in others}
    return replace(table, metrics={**table.metrics, **more})


def _ends(values: Float32) -> _Ends:
    """Lowest and highest value of each row, NaN if it has one. Not by min and max, which may return
    -0 where the other code returns 0."""
    return _at(values, values.argmin(axis=1)), _at(values, values.argmax(axis=1))


def _are_plain(equal: Bool, ends: Sequence[_Ends]) -> Bool:
    """Rows without NaN and infinities, not equal, and constant on neither side."""
    plain: Bool = np.logical_not(equal.all(axis=1))
    for low, high in ends:
        width = high.astype(np.float64) - low
        plain &= np.isfinite(width) & (width > 0.0)
    return plain


def _columns(sides: _Sides, equal: Bool, ends: Sequence[_Ends]) -> SumColumns:
    device, golden, x, y = sides
    ones = _ones(x)
    error = x - y
    square_error = row_products(error, error)
    np.abs(error, out=error)
    absolute = row_products(error, ones)
    places = error.argmax(axis=1)
    ratio = np.abs(y)
    if ratio.min() <= EPSILON:
        ratio[ratio <= EPSILON] = math.inf
    np.divide(error, ratio, out=ratio)
    return SumColumns(
        _side(device, x, ones, ends[0]),
        _side(golden, y, ones, ends[1]),
        row_products(x, y),
        square_error,
        absolute,
        _at(error, places),
        row_products(ratio, ones),
        ratio.max(axis=1),
        _counted(equal),
        places,
        _at(x, places),
        _at(y, places),
    )


def _side(values: Float32, wide: Float64, ones: Float64, ends: _Ends) -> SideColumns:
    totals, squares = row_products(wide, ones), row_products(wide, wide)
    means = totals / wide.shape[1]
    levels = means * totals
    spreads = squares - levels
    close = np.flatnonzero(spreads < WIDE_SPREAD * levels)
    if len(close):
        centred = wide[close] - means[close, None]
        spreads[close] = row_products(centred, centred)
    return SideColumns(totals, squares, spreads, *ends, _counted(values == 0.0))


def _counted(flags: Bool) -> Int64:
    """How many elements of each row are set; fast if most rows have none."""
    if not flags.any():
        return np.zeros(len(flags), np.int64)
    counts: Int64 = np.count_nonzero(flags, axis=1)
    return counts


def _sums(columns: SumColumns, row: int, size: int) -> Sums:
    """One row as a record."""
    x, y = (
        SideSums._make([*(column.item(row) for column in side[:5]), 0, 0]) for side in columns[:2]
    )
    size_of_worst = columns.worst.item(row)
    return Sums(
        size,
        x,
        y,
        columns.product.item(row),
        columns.square_error.item(row),
        columns.absolute.item(row),
        size_of_worst,
        columns.relative.item(row),
        columns.worst_relative.item(row),
        0,
        columns.equal.item(row),
        columns.device.zeros.item(row),
        columns.golden.zeros.item(row),
        Worst(
            size_of_worst,
            columns.place.item(row),
            columns.worst_device.item(row),
            columns.worst_golden.item(row),
        ),
    )


def _divergences(sides: _Sides, columns: SumColumns) -> Float64:
    """The sums of P, Q and P ln(P/Q) as rows; overwrites the values."""
    ones = _ones(sides.x)
    for values, side in ((sides.x, columns.device), (sides.y, columns.golden)):
        low = side.low.astype(np.float64)  # as Scale.of gives it where a side is not constant
        floor = FLOAT32_EPSILON * (side.high - low)
        np.subtract(values, low[:, None], out=values)
        np.maximum(values, floor[:, None], out=values)
    device, golden = row_products(sides.x, ones), row_products(sides.y, ones)
    ratio = np.divide(sides.x, sides.y, out=sides.y)
    np.log(ratio, out=ratio)
    return np.array([device, golden, row_products(sides.x, ratio)])


def _at(values: Array, places: Array) -> Array:
    """The value of each row at that row's place."""
    values_at: Array = values[np.arange(len(places)), places]
    return values_at


def _ones(like: Float64) -> Float64:
    return np.broadcast_to(_ONES[: like.shape[1]], like.shape)
