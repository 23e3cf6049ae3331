"""Sums over tensor pairs from which every metric follows, block by block.

One sweep over both sides gives :class:`PairSums`; the Kullback-Leibler divergence needs
the minimum and maximum of the whole tensor first, so it takes a second sweep
(:class:`DivergenceSums`). Both records merge: sums of blocks, threads or machines add up
to the sums of the whole. Values are float32, every sum is float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 65_536
"""Elements swept at once: fewer cost calls, more fall out of the cache (measured)."""

EPSILON = float(np.finfo(np.float64).eps)
"""At or below this a golden value counts as zero (formats: msaccucmp's FLOAT_EPSILON)."""

_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)

_DOT = 8192
"""OpenBLAS starts threads for longer dot products; they spin and starve other workers."""

_WIDE_SPREAD = 0.01
"""Where the squared spread is at least this part of the squared mean, the difference of
the two sums keeps 13 digits and a second look at the values is not needed."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SideSums:
    """Sums of one side. ``spread`` is the sum of squared distances from the mean."""

    total: float
    square: float
    spread: float
    low: float
    high: float
    nans: int = 0
    infinities: int = 0

    @property
    def nonfinite(self) -> int:
        """How many values are NaN or infinite."""
        return self.nans + self.infinities

    @property
    def norm(self) -> float:
        """Euclidean norm."""
        return math.sqrt(self.square)

    def merged(self, count: int, other: SideSums, other_count: int) -> SideSums:
        """The sums of both parts together (spread by Chan's rule)."""
        shift = other.total / other_count - self.total / count
        weight = count * other_count / (count + other_count)
        return SideSums(
            total=self.total + other.total,
            square=self.square + other.square,
            spread=self.spread + other.spread + shift * shift * weight,
            low=_keep_nan(min, self.low, other.low),
            high=_keep_nan(max, self.high, other.high),
            nans=self.nans + other.nans,
            infinities=self.infinities + other.infinities,
        )


@dataclass(frozen=True, slots=True)
class PairSums:
    """Sums of ``count`` > 0 pairs, x of the device and y of the golden side.

    Relative errors are |x/y - 1|, 0 where |y| is at or below :data:`EPSILON`.
    ``unlike`` counts pairs with a NaN or infinity that are not the same value twice.
    """

    count: int
    device: SideSums
    golden: SideSums
    product: float
    square_error: float
    absolute_error: float
    worst_absolute: float
    relative_error: float
    worst_relative: float
    unlike: int = 0

    def merged(self, other: PairSums) -> PairSums:
        """The sums of both parts together."""
        return PairSums(
            count=self.count + other.count,
            device=self.device.merged(self.count, other.device, other.count),
            golden=self.golden.merged(self.count, other.golden, other.count),
            product=self.product + other.product,
            square_error=self.square_error + other.square_error,
            absolute_error=self.absolute_error + other.absolute_error,
            worst_absolute=_keep_nan(max, self.worst_absolute, other.worst_absolute),
            relative_error=self.relative_error + other.relative_error,
            worst_relative=_keep_nan(max, self.worst_relative, other.worst_relative),
            unlike=self.unlike + other.unlike,
        )

    @property
    def finite(self) -> bool:
        """True if neither side holds a NaN or infinity."""
        return self.device.nonfinite == 0 and self.golden.nonfinite == 0


@dataclass(frozen=True, slots=True)
class Scale:
    """How a side becomes a distribution: max(v - base, floor), then divided by its sum."""

    base: float
    floor: float

    @classmethod
    def of(cls, side: SideSums) -> Scale:
        """Shifted to 0 and floored at float32 epsilon of the range; a constant as it is."""
        width = side.high - side.low
        if width == 0.0:
            return cls(0.0, _FLOAT32_EPSILON)
        return cls(side.low, _FLOAT32_EPSILON * width)


@dataclass(frozen=True, slots=True)
class DivergenceSums:
    """Sums of P, Q and P ln(P/Q), P of the device and Q of the golden side."""

    device: float
    golden: float
    weighted_log: float

    def merged(self, other: DivergenceSums) -> DivergenceSums:
        """The sums of both parts together."""
        return DivergenceSums(
            self.device + other.device,
            self.golden + other.golden,
            self.weighted_log + other.weighted_log,
        )

    @property
    def divergence(self) -> float:
        """Sum of p ln(p/q) over the normalised distributions."""
        return self.weighted_log / self.device - math.log(self.device / self.golden)


class Sweeper:
    """Walks tensor pairs in blocks with one set of temporaries.

    Not to be shared between threads.
    """

    def __init__(self, size: int = BLOCK) -> None:
        self._block = size
        self._room = 0

    def pair_sums(self, device: NDArray[Any], golden: NDArray[Any]) -> PairSums:
        """Sums of two flat arrays of one length > 0; bool, integer or float elements."""
        self._reserve(len(device))
        with np.errstate(all="ignore"):
            result = self._pair_block(device, golden, 0)
            for start in range(self._block, len(device), self._block):
                result = result.merged(self._pair_block(device, golden, start))
        return result

    def divergence_sums(
        self, device: NDArray[Any], golden: NDArray[Any], sums: PairSums
    ) -> DivergenceSums:
        """Second sweep over the same finite arrays, *sums* being what the first gave."""
        self._reserve(len(device))
        scales = Scale.of(sums.device), Scale.of(sums.golden)
        with np.errstate(all="ignore"):
            result = self._divergence_block(device, golden, 0, scales)
            for start in range(self._block, len(device), self._block):
                result = result.merged(self._divergence_block(device, golden, start, scales))
        return result

    def _reserve(self, length: int) -> None:
        room = min(length, self._block)
        if room <= self._room:
            return
        self._room = room
        self._x = np.empty(room, np.float64)
        self._y = np.empty(room, np.float64)
        self._difference = np.empty(room, np.float64)
        self._ratio = np.empty(room, np.float64)
        self._tiny = np.empty(room, np.bool_)

    def _pair_block(self, device: NDArray[Any], golden: NDArray[Any], start: int) -> PairSums:
        x32 = _float32(device[start : start + self._block])
        y32 = _float32(golden[start : start + self._block])
        count = len(x32)
        x, y = self._x[:count], self._y[:count]
        np.copyto(x, x32)
        np.copyto(y, y32)
        low_x, high_x = float(np.minimum.reduce(x32)), float(np.maximum.reduce(x32))
        low_y, high_y = float(np.minimum.reduce(y32)), float(np.maximum.reduce(y32))
        finite = math.isfinite(low_x - high_x) and math.isfinite(low_y - high_y)
        difference = np.subtract(x, y, out=self._difference[:count])
        square_error = _dot(difference, difference)
        np.abs(difference, out=difference)
        relative = self._relative(x, y, difference) if finite else _relative_nonfinite(x, y)
        absolute = _total_and_worst(difference)
        return PairSums(
            count=count,
            # From here on the room of the differences is free for the sides.
            device=self._side(x, x32, low_x, high_x),
            golden=self._side(y, y32, low_y, high_y),
            product=_dot(x, y),
            square_error=square_error,
            absolute_error=absolute[0],
            worst_absolute=absolute[1],
            relative_error=float(np.add.reduce(relative)),
            worst_relative=float(np.maximum.reduce(relative)),
            unlike=0 if finite else _unlike(x32, y32),
        )

    def _relative(self, x: Float64, y: Float64, difference: Float64) -> Float64:
        """|x - y| / |y|; a golden value that counts as zero divides as infinity."""
        ratio = np.abs(y, out=self._ratio[: len(x)])
        tiny = np.less_equal(ratio, EPSILON, out=self._tiny[: len(x)])
        if tiny.any():
            np.putmask(ratio, tiny, math.inf)
        return np.divide(difference, ratio, out=ratio)

    def _side(self, values: Float64, raw: Float32, low: float, high: float) -> SideSums:
        total = float(np.add.reduce(values))
        square = _dot(values, values)
        if not math.isfinite(low - high):
            nans = int(np.count_nonzero(np.isnan(raw)))
            infinities = int(np.count_nonzero(np.isinf(raw)))
            return SideSums(total, square, math.nan, low, high, nans, infinities)
        mean = total / len(values)
        level = mean * total
        spread = square - level
        if spread < _WIDE_SPREAD * level:
            centred = np.subtract(values, mean, out=self._difference[: len(values)])
            spread = _dot(centred, centred)
        return SideSums(total, square, spread, low, high)

    def _divergence_block(
        self,
        device: NDArray[Any],
        golden: NDArray[Any],
        start: int,
        scales: tuple[Scale, Scale],
    ) -> DivergenceSums:
        p = _shifted(_float32(device[start : start + self._block]), scales[0], self._x)
        q = _shifted(_float32(golden[start : start + self._block]), scales[1], self._y)
        golden_sum = float(np.add.reduce(q))
        ratio = np.divide(p, q, out=q)
        np.log(ratio, out=ratio)
        return DivergenceSums(float(np.add.reduce(p)), golden_sum, _dot(p, ratio))


def _shifted(values: Float32, scale: Scale, room: Float64) -> Float64:
    result = room[: len(values)]
    np.copyto(result, values)
    if scale.base:
        np.subtract(result, scale.base, out=result)
    # Only blocks that come near the minimum pay for the floor.
    if float(np.minimum.reduce(values)) - scale.base < scale.floor:
        np.maximum(result, scale.floor, out=result)
    return result


def _total_and_worst(errors: Float64) -> tuple[float, float]:
    return float(np.add.reduce(errors)), float(np.maximum.reduce(errors))


def _relative_nonfinite(x: Float64, y: Float64) -> Float64:
    """|x/y - 1| as defined, also where x or y is not finite (a NaN golden counts as zero)."""
    return np.where(np.abs(y) > EPSILON, np.abs(x / y - 1.0), 0.0)


def _unlike(x: Float32, y: Float32) -> int:
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return int(np.count_nonzero(~finite & ~same))


def _float32(values: NDArray[Any]) -> Float32:
    return values if values.dtype == np.float32 else values.astype(np.float32)


def _dot(left: Float64, right: Float64) -> float:
    if len(left) <= _DOT:
        return float(left.dot(right))
    result = 0.0
    for start in range(0, len(left), _DOT):
        result += float(left[start : start + _DOT].dot(right[start : start + _DOT]))
    return result


def _keep_nan(pick: Any, first: float, second: float) -> float:
    """min or max that is NaN if either value is."""
    if math.isnan(first) or math.isnan(second):
        return math.nan
    result: float = pick(first, second)
    return result
