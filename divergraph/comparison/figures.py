"""The figures of a tensor pair from its sums."""

from __future__ import annotations

import math

from divergraph.comparison.own_sums import OwnSide, OwnSums, Scaled
from divergraph.comparison.sums import SecondSums, SideSums, Sums
from graphstore.model import Figures, SideFigures

_DECIBELS = 10.0 / math.log2(10.0)
"""Decibels of a factor of two in power."""


def figures_of(sums: Sums, second: SecondSums, atol: float, rtol: float) -> Figures:
    """The figures, *atol* and *rtol* being those the bad elements were counted with."""
    worst, own = sums.worst, sums.own
    if own is None:
        count = sums.elements
        device = _side(sums.device, count, sums.device_zeros)
        golden = _side(sums.golden, count, sums.golden_zeros)
        noise, signal = sums.square_error, sums.golden.square
        snr = _decibels(signal, noise, 0)
        width = golden.high - golden.low
        psnr = _decibels(width * width * count, noise, 0)
        distance = _cosine_distance(math.sqrt(sums.device.square), math.sqrt(signal), noise)
    else:
        device = _own_side(own.device, sums.device_zeros)
        golden = _own_side(own.golden, sums.golden_zeros)
        snr, psnr, distance = _own_ratios(own, golden, sums.elements)
    return Figures(
        device,
        golden,
        atol,
        rtol,
        sums.equal,
        second.bad,
        second.first_bad,
        -1 if worst is None else worst.place,
        math.nan if worst is None else worst.device,
        math.nan if worst is None else worst.golden,
        snr,
        psnr,
        cosine_distance=distance,
    )


def figures_of_empty(atol: float, rtol: float) -> Figures:
    """The figures of two tensors without elements."""
    nan, none = math.nan, SideFigures(math.nan, math.nan, math.nan, math.nan)
    return Figures(none, none, atol, rtol, 0, 0, -1, -1, nan, nan, math.inf, math.inf)


def _side(side: SideSums, count: int, zeros: int) -> SideFigures:
    std = math.sqrt(max(side.spread, 0.0) / count)
    return SideFigures(side.low, side.high, side.total / count, std, zeros)


def _own_side(side: OwnSide, zeros: int) -> SideFigures:
    std = side.spread.root(side.elements) if side.elements else math.nan
    return SideFigures(side.low, side.high, side.mean, std, zeros, side.nans, side.infinities)


def _own_ratios(own: OwnSums, golden: SideFigures, count: int) -> tuple[float, float, float | None]:
    """SNR, PSNR and cosine distance of the pairs finite on both sides."""
    noise, signal = own.square_error, own.golden_square
    snr = _decibels(signal.value, noise.value, signal.exponent - noise.exponent)
    width, exponent = math.frexp(golden.high / 2.0 - golden.low / 2.0)
    peak = width * width * count
    psnr = _decibels(peak, noise.value, 2 * (exponent + 1) - noise.exponent)
    # All three to one power of two, the larger side's.
    common = max(own.device_square.exponent, signal.exponent)
    common += common % 2
    x, y, error = (_to(square, common) for square in (own.device_square, signal, noise))
    return snr, psnr, _cosine_distance(math.sqrt(x), math.sqrt(y), error)


def _to(square: Scaled, exponent: int) -> float:
    return Scaled(square.value, square.exponent - exponent).plain()


def _decibels(signal: float, noise: float, exponent: int) -> float:
    """10 log10(signal * 2^exponent / noise)."""
    if noise == 0.0:
        return math.inf
    if not signal > 0.0:
        return math.nan if math.isnan(signal) else -math.inf
    return _DECIBELS * (math.log2(signal) - math.log2(noise) + exponent)


def _cosine_distance(x: float, y: float, square_error: float) -> float | None:
    """1 - cosine from both norms and the squared distance: (|x-y|^2 - (|x|-|y|)^2) / 2|x||y|.

    Where the sides are close this keeps the digits that 1 - x.y/|x||y| cancels.
    """
    if x == 0.0 or y == 0.0:
        return None
    difference = x - y
    return min(2.0, max(0.0, (square_error - difference * difference) / x / y / 2.0))
