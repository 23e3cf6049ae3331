"""Figures of a tensor pair from the same sweep as the ten metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SideFigures:
    """One side of a tensor pair. ``low``, ``high``, ``mean`` and ``std`` are of its finite
    values (NaN if there are none), std of the population."""

    low: float
    high: float
    mean: float
    std: float
    zeros: int = 0
    nans: int = 0
    infinities: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """x is the device side, y the golden side, places are flat C-order indices of the
    compared (golden) shape, -1 where there is none.

    Unlike the ten metrics these are of the values in their own types: float64 is not cut to
    float32, int64 is exact. An element is *bad* unless both are NaN, or equal, or finite with
    |x - y| <= ``atol`` + ``rtol`` * |y|. ``equal`` counts elements of the same value (NaN
    equals NaN). ``worst`` is the place of the largest |x - y|, one-sided NaN and infinities
    first; -1 and NaN values where nothing differs. ``snr``, ``psnr`` and
    ``cosine_distance`` are of the pairs that are finite on both sides.
    """

    device: SideFigures
    golden: SideFigures
    atol: float
    rtol: float
    equal: int
    bad: int
    first_bad: int
    worst: int
    worst_device: float
    worst_golden: float
    snr: float
    """10 log10(sum y^2 / sum (x-y)^2) in dB; infinite if equal."""
    psnr: float
    """10 log10((max y - min y)^2 / mean (x-y)^2) in dB; infinite if equal."""
    max_ulp: float | None = None
    """Largest distance in units of the last place of the coarser of both float types; None
    where it was not asked for or not defined."""
    cosine_distance: float | None = None
    """1 - cosine, with the digits a cosine of 0.999999... loses; None where it is not
    defined (a side is all zero)."""
    where_bad: str = ""
    """The pattern of the bad elements, if they form one: ``channels 8-15 of axis 1``."""
