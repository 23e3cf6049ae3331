"""Many small float32 pairs of one size measured together.

Below some ten thousand elements numpy's calls cost more than the arithmetic, so pairs are
stacked as rows and each call does a hundred of them. Every row goes through the steps of
:mod:`divergraph.comparison.sweep`, so its sums are the same to the last bit. Rows that need
other steps (NaN and infinities, equal sides, constant ones) are left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergraph.comparison.dots import ROW, row_products
from divergraph.comparison.flat import Flat
from divergraph.comparison.sums import (
    EPSILON,
    NO_SECOND,
    Scale,
    SecondSums,
    SideSums,
    Sums,
    Worst,
)
from divergraph.comparison.sweep import WIDE_SPREAD, Second, Sweeper, count_bad

_UNASKED = (math.nan, math.nan, math.nan)

MOST_ELEMENTS = ROW
"""Elements of a small pair: those of a row of one BLAS call."""

AT_ONCE = 65_536
"""Elements treated at once, which stay in the cache."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

_ONES = np.ones(ROW)


class _Sides(NamedTuple):
    """Both sides of all rows as float32, and as float64."""

    device: Float32
    golden: Float32
    x: Float64
    y: Float64


class KnownSums(Sweeper):
    """Stands for the sweeps over one pair, whose sums are known but for the bad elements."""

    def __init__(self, sums: Sums, divergence: tuple[float, float, float]) -> None:
        self._sums, self._divergence = sums, divergence

    def both(
        self, device: Flat, golden: Flat, ask: Callable[[Sums], Second | None]
    ) -> tuple[Sums, SecondSums]:
        """The sums of both sweeps."""
        asked = ask(self._sums)
        if asked is None:
            return self._sums, NO_SECOND
        bad, first_bad = 0, -1
        if self._sums.worst_absolute > asked.atol:
            with np.errstate(all="ignore"):
                bad, first_bad = count_bad(device[:], golden[:], asked, 0)
        divergence = self._divergence if asked.scales is not None else _UNASKED
        return self._sums, SecondSums(*divergence, bad, first_bad)


def known_sums(
    pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
) -> Iterator[KnownSums | None]:
    """What stands for the sweeps over each pair of float32 arrays, all of one size up to
    :data:`MOST_ELEMENTS`; None for pairs that need other steps."""
    size = pairs[0][0].size
    most = max(1, AT_ONCE // size)
    for begin in range(0, len(pairs), most):
        yield from _known(pairs[begin : begin + most], size)


def _known(
    pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], size: int
) -> Iterator[KnownSums | None]:
    device = np.array([pair[0].reshape(-1) for pair in pairs])
    golden = np.array([pair[1].reshape(-1) for pair in pairs])
    with np.errstate(all="ignore"):
        plain = _are_plain(device, golden)
        rows = np.flatnonzero(plain)
        if len(rows) < len(pairs):
            device, golden = device[rows], golden[rows]
        found: list[KnownSums] = []
        if len(rows):
            sides = _Sides(device, golden, device.astype(np.float64), golden.astype(np.float64))
            sums = _sums(sides, size)
            found = [KnownSums(*each) for each in zip(sums, _divergences(sides, sums), strict=True)]
    done = iter(found)
    for is_plain in plain.tolist():
        yield next(done) if is_plain else None


def _are_plain(device: Float32, golden: Float32) -> NDArray[np.bool_]:
    """Rows without NaN and infinities, not equal, and constant on neither side."""
    plain: NDArray[np.bool_] = (device != golden).any(axis=1)
    for side in (device, golden):
        width = side.max(axis=1).astype(np.float64) - side.min(axis=1)
        plain &= np.isfinite(width) & (width > 0.0)
    return plain


def _sums(sides: _Sides, size: int) -> list[Sums]:
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
    # In the order of the fields of Sums between the sides and the counts.
    columns = zip(
        row_products(x, y).tolist(),
        square_error.tolist(),
        absolute.tolist(),
        _at(error, places).tolist(),
        row_products(ratio, ones).tolist(),
        ratio.max(axis=1).tolist(),
        strict=True,
    )
    flags = (device == golden, device == 0.0, golden == 0.0)
    counts = zip(*(np.count_nonzero(each, axis=1).tolist() for each in flags), strict=True)
    far = zip(places.tolist(), _at(x, places).tolist(), _at(y, places).tolist(), strict=True)
    both = zip(_side(device, x, ones), _side(golden, y, ones), strict=True)
    return [
        Sums._make((size, *two, *sums, 0, *three, Worst(sums[3], *worst), None))
        for two, sums, three, worst in zip(both, columns, counts, far, strict=True)
    ]


def _side(values: Float32, wide: Float64, ones: Float64) -> list[SideSums]:
    totals, squares = row_products(wide, ones), row_products(wide, wide)
    means = totals / wide.shape[1]
    levels = means * totals
    spreads = squares - levels
    close = np.flatnonzero(spreads < WIDE_SPREAD * levels)
    if len(close):
        centred = wide[close] - means[close, None]
        spreads[close] = row_products(centred, centred)
    # Not by min and max, which may give another zero of -0 and 0.
    low, high = _at(values, values.argmin(axis=1)), _at(values, values.argmax(axis=1))
    lists = (totals, squares, spreads, low, high)
    return [SideSums(*row) for row in zip(*(column.tolist() for column in lists), strict=True)]


def _divergences(sides: _Sides, sums: Sequence[Sums]) -> list[tuple[float, float, float]]:
    """The sums of P, Q and P ln(P/Q); the values are lost."""
    ones = _ones(sides.x)
    for values, scales in (
        (sides.x, [Scale.of(each.device) for each in sums]),
        (sides.y, [Scale.of(each.golden) for each in sums]),
    ):
        both = np.array(scales)
        np.subtract(values, both[:, :1], out=values)
        np.maximum(values, both[:, 1:], out=values)
    device, golden = row_products(sides.x, ones), row_products(sides.y, ones)
    ratio = np.divide(sides.x, sides.y, out=sides.y)
    np.log(ratio, out=ratio)
    weighted = row_products(sides.x, ratio)
    return list(zip(device.tolist(), golden.tolist(), weighted.tolist(), strict=True))


def _at(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Of each row the value at its place."""
    found: NDArray[Any] = values[np.arange(len(places)), places]
    return found


def _ones(like: Float64) -> Float64:
    return np.broadcast_to(_ONES[: like.shape[1]], like.shape)
