"""One tensor pair measured: the ten metrics, and the figures beside them, from one sweep.

:func:`measure` reads both tensors once for everything but the Kullback-Leibler divergence
and the bad elements, which need the minimum, maximum and norm of the whole first. What
costs more (ULP distances, a histogram of the errors, where the bad elements sit) is for
:func:`divergraph.comparison.inspection.inspect`, on request or for tensors over a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergraph.comparison.metrics import compare_arrays
from divergraph.comparison.sums import Sweeper
from graphstore.model import Figures, MetricSet, SideFigures

RELATIVE_TOLERANCE = 0.01
"""Share of a value, and of the golden tensor's root mean square, that is no bad error."""

ZERO_TOLERANCE = 1e-6
"""The absolute tolerance where golden is all zero, so its root mean square says nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a sweep. An element is bad if |x - y| > ``atol`` + ``rtol`` * |y|;
    without ``atol`` it is ``rtol`` times the root mean square of golden's finite values
    (:data:`ZERO_TOLERANCE` if those are all zero), so that the scale does not matter."""

    atol: float | None = None
    rtol: float = RELATIVE_TOLERANCE


DEFAULT = Wanted()


@dataclass(frozen=True, slots=True)
class Measured:
    """The ten metrics, always of the values cast to float32, and the figures."""

    metrics: MetricSet
    figures: Figures


def measure(
    device: NDArray[Any],
    golden: NDArray[Any],
    *,
    want: Wanted = DEFAULT,
    sweeper: Sweeper | None = None,
) -> Measured:
    """Metrics and figures of *device* (x) against *golden* (y); shapes are not looked at.

    Elements are bool, integer or real; memory does not grow with the tensors unless one
    does not lie in C order. Many calls are faster with one *sweeper*, which is not to be
    shared between threads.

    Raises:
        LengthMismatchError: the sides have different numbers of elements.
        UnsupportedElementError: complex or non-numeric elements; both are ValueError.
    """
    metrics = compare_arrays(device, golden, sweeper)
    return Measured(metrics, _figures(device.reshape(-1), golden.reshape(-1), want))


def _figures(device: NDArray[Any], golden: NDArray[Any], want: Wanted) -> Figures:
    x, y = device.astype(np.float64), golden.astype(np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    atol = want.atol
    if atol is None:
        known = y[np.isfinite(y)]
        root = float(np.sqrt(np.mean(np.square(known)))) if known.size else 0.0
        atol = want.rtol * root or ZERO_TOLERANCE
    with np.errstate(all="ignore"):
        equal = (device == golden) | (np.isnan(x) & np.isnan(y))
        error = np.where(equal, 0.0, np.where(good, np.abs(x - y), math.inf))
        bad = ~equal & ~(error <= atol + want.rtol * np.abs(y))
        fine_error, fine = error[good], y[good]
        noise, power = float(np.square(fine_error).sum()), float(np.square(fine).sum())
        peak = float(fine.max() - fine.min()) ** 2 if fine.size else math.nan
        snr = 10 * float(np.log10(np.divide(power, noise)))
        psnr = 10 * float(np.log10(np.divide(peak * fine.size, noise)))
    differs = bool((error > 0).any())
    worst = int(error.argmax()) if differs else -1
    return Figures(
        device=_side(x),
        golden=_side(y),
        atol=atol,
        rtol=want.rtol,
        equal=int(np.count_nonzero(equal)),
        bad=int(np.count_nonzero(bad)),
        first_bad=int(bad.argmax()) if bad.any() else -1,
        worst=worst,
        worst_device=float(x[worst]) if differs else math.nan,
        worst_golden=float(y[worst]) if differs else math.nan,
        snr=math.inf if noise == 0 else snr,
        psnr=math.inf if noise == 0 else psnr,
    )


def _side(values: NDArray[np.float64]) -> SideFigures:
    good = values[np.isfinite(values)]
    if not good.size:
        low = high = mean = std = math.nan
    else:
        low, high = float(good.min()), float(good.max())
        mean, std = float(good.mean()), float(good.std())
    zeros, nans = np.count_nonzero(values == 0), np.count_nonzero(np.isnan(values))
    infinities = np.count_nonzero(np.isinf(values))
    return SideFigures(low, high, mean, std, int(zeros), int(nans), int(infinities))
