"""The figures of a tensor pair from its sums."""

from __future__ import annotations

import math

from divergraph.metrics.sums import OwnSide, OwnSums, Scaled, SecondSums, SideSums, Sums, power
from graphstore.model import Figures, SideFigures

DECIBELS = 10.0 / math.log2(10.0)
"""Decibels of a factor of two in power."""

_FAR = 400
"""Powers of two between two norms, above which no common scale keeps both squares in float64."""


def figures_of(
    sums: Sums, second: SecondSums, atol: float, rtol: float, where_bad: str = ""
) -> Figures:
    """The figures of a pair; *atol* and *rtol* are those its bad elements were counted with."""
    worst, own = sums.worst, sums.own
    if own is None:
        count = sums.elements
        device = _side(sums.device, count, sums.device_zeros)
        golden = _side(sums.golden, count, sums.golden_zeros)
        noise, signal = sums.square_error, sums.golden.square
        snr = _decibels(signal, noise, 0)
        width = golden.high - golden.low
        psnr = _decibels(width * width * count, noise, 0)
        x, y = math.sqrt(sums.device.square), math.sqrt(signal)
        distance = _cosine_distance(x, y, sums.product, noise)
    else:
        device = _own_side(own.device, sums.device_zeros)
        golden = _own_side(own.golden, sums.golden_zeros)
        snr, psnr, distance = _own_ratios(own, golden, sums.elements)
    return Figures(
        device=device,
        golden=golden,
        atol=atol,
        rtol=rtol,
        equal=sums.equal,
        bad=second.bad,
        first_bad=second.first_bad,
        worst=-1 if worst is None else worst.place,
        worst_device=math.nan if worst is None else worst.device,
        worst_golden=math.nan if worst is None else worst.golden,
        snr=snr,
        psnr=psnr,
        cosine_distance=distance,
        where_bad=where_bad,
    )


def figures_of_empty(atol: float, rtol: float) -> Figures:
    """The figures of two tensors without elements."""
    nan, none = math.nan, SideFigures(math.nan, math.nan, math.nan, math.nan)
    return Figures(
        device=none,
        golden=none,
        atol=atol,
        rtol=rtol,
        equal=0,
        bad=0,
        first_bad=-1,
        worst=-1,
        worst_device=nan,
        worst_golden=nan,
        snr=math.inf,
        psnr=math.inf,
    )


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
    width, exponent = math.frexp(golden.high - golden.low)
    if math.isinf(width):
        width, exponent = math.frexp(golden.high / 2.0 - golden.low / 2.0)
        exponent += 1
    psnr = _decibels(width * width * count, noise.value, 2 * exponent - noise.exponent)
    # Each norm is scaled by a power of two, the product and the error by both.
    x, by_x = _norm(own.device_square)
    y, by_y = _norm(signal)
    if x and y and abs(by_x - by_y) > _FAR:
        cosine = power(own.product.value / x / y, own.product.exponent - by_x - by_y)
        return snr, psnr, min(2.0, max(0.0, 1.0 - cosine))
    by = max(by_x, by_y)
    distance = _cosine_distance(
        power(x, by_x - by), power(y, by_y - by), _to(own.product, 2 * by), _to(noise, 2 * by)
    )
    return snr, psnr, distance


def _norm(square: Scaled) -> tuple[float, int]:
    fraction, exponent = math.frexp(square.value)
    exponent += square.exponent
    remainder = exponent % 2
    return math.sqrt(fraction * (1 + remainder)), (exponent - remainder) // 2


def _to(square: Scaled, exponent: int) -> float:
    return Scaled(square.value, square.exponent - exponent).plain()


def _decibels(signal: float, noise: float, exponent: int) -> float:
    """10 log10(signal * 2^exponent / noise)."""
    if noise == 0.0:
        return math.inf
    if not signal > 0.0:
        return math.nan if math.isnan(signal) else -math.inf
    return DECIBELS * (math.log2(signal) - math.log2(noise) + exponent)


def _cosine_distance(x: float, y: float, product: float, square_error: float) -> float | None:
    """1 - cosine, from both norms, the dot product and the squared distance. For close sides
    (|x-y|^2 - (|x|-|y|)^2) / 2|x||y| keeps the digits that 1 - x.y/|x||y| cancels."""
    if x == 0.0 or y == 0.0:
        return None
    if square_error <= x * y:
        distance = (square_error - (x - y) * (x - y)) / x / y / 2.0
    else:
        distance = 1.0 - product / x / y
    return min(2.0, max(0.0, distance))
