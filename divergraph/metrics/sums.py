"""Records of sums over tensor pairs from which every metric and figure follows.

One sweep over both sides gives :class:`Sums`; the Kullback-Leibler divergence and the bad
elements need the minimum, maximum and norm of the whole tensor first, so they take a second
one (:class:`SecondSums`). Records of parts (blocks, threads, machines) combine to that of
the whole: sums of any number of parts are rounded once, so the order of the parts does not
matter; combining what was combined before rounds again, by some 1e-16 of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


# Own sums are over values in their own types: float64 beyond float32's range and digits, 64-bit
# integers, and tensors with NaN or infinities, of which only the finite part is summed.
class Scaled(NamedTuple):
    """``value`` times 2 to the power of ``exponent``: squares of float64 extremes fit."""

    value: float
    exponent: int = 0

    @classmethod
    def total(cls, parts: Sequence[Scaled]) -> Scaled:
        """The sum, rounded once."""
        exponents = [part.exponent for part in parts if part.value]
        exponent = max(exponents, default=0)
        return cls(math.fsum(_at(part, exponent) for part in parts), exponent)

    def over(self, other: Scaled) -> float:
        """The quotient; infinite or NaN where *other* is zero."""
        if other.value == 0.0:
            return math.inf if self.value else math.nan
        return power(self.value / other.value, self.exponent - other.exponent)

    def root(self, count: int) -> float:
        """The square root of the value's *count*-th part."""
        value, exponent = self
        if exponent % 2:
            value, exponent = value * 2.0, exponent - 1
        return power(math.sqrt(max(value, 0.0) / count), exponent // 2)

    def part(self, count: int) -> Scaled:
        """The *count*-th part (negative: of the negative value)."""
        return Scaled(self.value / count, self.exponent)

    def plain(self) -> float:
        """The value as a float, infinite if it is too large for one."""
        return power(self.value, self.exponent)


def power(value: float, exponent: int) -> float:
    """value * 2^exponent; infinite where that overflows."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def _at(part: Scaled, exponent: int) -> float:
    return math.ldexp(part.value, part.exponent - exponent) if part.value else 0.0


class OwnSide(NamedTuple):
    """Sums of the ``elements`` finite values of one side; ``low`` and ``high`` are NaN if
    there is none. ``spread`` is the sum of squared distances from the mean."""

    elements: int
    total: Scaled
    square: Scaled
    spread: Scaled
    low: float
    high: float
    nans: int
    infinities: int

    @property
    def mean(self) -> float:
        """Mean of the finite values, NaN without any."""
        return self.total.part(self.elements).plain() if self.elements else math.nan

    @classmethod
    def combined(cls, parts: Sequence[OwnSide]) -> OwnSide:
        """The sums of all parts together (spread by Chan's rule)."""
        some = [part for part in parts if part.elements]
        nans = sum(part.nans for part in parts)
        infinities = sum(part.infinities for part in parts)
        if not some:
            return NO_VALUES._replace(nans=nans, infinities=infinities)
        count = sum(part.elements for part in some)
        sum_of_parts = Scaled.total([part.total for part in some])
        less_mean = sum_of_parts.part(-count)
        shifts = []
        for part in some:
            shift = Scaled.total([part.total.part(part.elements), less_mean])
            # A fraction in [0.5, 1), so that its square is always a float.
            fraction, more = math.frexp(shift.value)
            shifts.append(Scaled(part.elements * fraction**2, 2 * (shift.exponent + more)))
        return cls(
            elements=count,
            total=sum_of_parts,
            square=Scaled.total([part.square for part in some]),
            spread=Scaled.total([*(part.spread for part in some), *shifts]),
            low=min(part.low for part in some),
            high=max(part.high for part in some),
            nans=nans,
            infinities=infinities,
        )


NO_VALUES = OwnSide(0, Scaled(0.0), Scaled(0.0), Scaled(0.0), math.nan, math.nan, 0, 0)


class OwnSums(NamedTuple):
    """Both sides, and sums over the pairs that are finite on both: of x^2, y^2, x y and
    (x - y)^2."""

    device: OwnSide
    golden: OwnSide
    device_square: Scaled
    golden_square: Scaled
    product: Scaled
    square_error: Scaled

    @classmethod
    def combined(cls, parts: Sequence[OwnSums]) -> OwnSums:
        """The sums of all parts together."""
        device, golden, *products = zip(*parts, strict=True)
        sides = OwnSide.combined(device), OwnSide.combined(golden)
        return cls(*sides, *map(Scaled.total, products))


EPSILON = 2.0**-52
"""At or below this a golden value counts as zero (formats: msaccucmp's FLOAT_EPSILON)."""

FLOAT32_EPSILON = 2.0**-23


class SideSums(NamedTuple):
    """Sums of one side as float32. ``spread`` is the sum of squared distances from the mean.

    NaN and infinities go into the sums as they are; then ``spread`` is NaN.
    """

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


class Worst(NamedTuple):
    """The pair with the largest |x - y|; NaN or infinity against another value is the
    largest of all, so its ``size`` is infinite. The earliest place of several."""

    size: float
    place: int
    device: float
    golden: float


class Sums(NamedTuple):
    """Sums of ``elements`` > 0 pairs, x of the device and y of the golden side.

    Sums are of the values cast to float32, accumulated in float64. Relative errors are
    |x/y - 1|, 0 where |y| is at or below :data:`EPSILON`. ``unlike`` counts pairs with a
    NaN or infinity that are not the same value twice. ``equal``, the zeros and ``worst``
    (None where nothing differs) are of the values in their own types, as is ``own``, which
    is None where all values are finite and the cast changes none.
    """

    elements: int
    device: SideSums
    golden: SideSums
    product: float
    square_error: float
    absolute_error: float
    worst_absolute: float
    relative_error: float
    worst_relative: float
    unlike: int
    equal: int
    device_zeros: int
    golden_zeros: int
    worst: Worst | None
    own: OwnSums | None = None

    @property
    def finite(self) -> bool:
        """True if neither side holds a NaN or infinity as float32."""
        x, y = self.device, self.golden
        return not (x.nans or x.infinities or y.nans or y.infinities)

    def in_own_types(self) -> OwnSums:
        """The sums of the values in their own types."""
        if self.own is not None:
            return self.own
        device, golden = (
            OwnSide(
                self.elements,
                Scaled(side.total),
                Scaled(side.square),
                Scaled(side.spread),
                side.low,
                side.high,
                0,
                0,
            )
            for side in (self.device, self.golden)
        )
        products = self.device.square, self.golden.square, self.product, self.square_error
        return OwnSums(device, golden, *map(Scaled, products))


def combine(parts: Sequence[Sums]) -> Sums:
    """The record of all *parts* (at least one) together."""
    if len(parts) == 1:
        return parts[0]
    own = None
    if any(part.own is not None for part in parts):
        own = OwnSums.combined([part.in_own_types() for part in parts])
    worst = [part.worst for part in parts if part.worst is not None]
    counts = [part.elements for part in parts]
    return Sums(
        elements=sum(counts),
        device=_combined_side(counts, [part.device for part in parts]),
        golden=_combined_side(counts, [part.golden for part in parts]),
        product=total(part.product for part in parts),
        square_error=total(part.square_error for part in parts),
        absolute_error=total(part.absolute_error for part in parts),
        worst_absolute=_extreme(max, [part.worst_absolute for part in parts]),
        relative_error=total(part.relative_error for part in parts),
        worst_relative=_extreme(max, [part.worst_relative for part in parts]),
        unlike=sum(part.unlike for part in parts),
        equal=sum(part.equal for part in parts),
        device_zeros=sum(part.device_zeros for part in parts),
        golden_zeros=sum(part.golden_zeros for part in parts),
        worst=max(worst, key=_by_size) if worst else None,
        own=own,
    )


def _combined_side(counts: Sequence[int], sides: Sequence[SideSums]) -> SideSums:
    sum_of_all = total(side.total for side in sides)
    mean = sum_of_all / sum(counts)
    # Chan's rule: what each part's mean is away from the common one adds to the spread.
    spreads = (
        side.spread + count * (side.total / count - mean) ** 2
        for count, side in zip(counts, sides, strict=True)
    )
    return SideSums(
        total=sum_of_all,
        square=total(side.square for side in sides),
        spread=total(spreads),
        low=_extreme(min, [side.low for side in sides]),
        high=_extreme(max, [side.high for side in sides]),
        nans=sum(side.nans for side in sides),
        infinities=sum(side.infinities for side in sides),
    )


def _by_size(worst: Worst) -> tuple[float, int]:
    return worst.size, -worst.place


def total(values: Iterable[float]) -> float:
    """The sum rounded once; NaN and infinities as plain addition gives them."""
    values = list(values)
    plain = sum(values)
    return math.fsum(values) if math.isfinite(plain) else plain


def _extreme(pick: Callable[[Sequence[float]], float], values: Sequence[float]) -> float:
    """min or max that is NaN if any value is."""
    return math.nan if any(map(math.isnan, values)) else pick(values)


class DistributionScale(NamedTuple):
    """How a side becomes a distribution: max(v - base, floor), then divided by its sum."""

    base: float
    floor: float

    @classmethod
    def of(cls, side: SideSums) -> DistributionScale:
        """Shifted to 0 and floored at float32 epsilon of the range; a constant as it is."""
        width = side.high - side.low
        if width == 0.0:
            return cls(0.0, FLOAT32_EPSILON)
        return cls(side.low, FLOAT32_EPSILON * width)


class SecondSums(NamedTuple):
    """Sums of P, Q and P ln(P/Q), P of the device and Q of the golden side, NaN where no
    divergence was asked for; the number of bad elements and the first one's place (-1)."""

    device: float
    golden: float
    weighted_log: float
    bad: int
    first_bad: int

    @property
    def divergence(self) -> float:
        """Sum of p ln(p/q) over the normalised distributions."""
        if math.isnan(self.weighted_log):
            return math.nan
        return self.weighted_log / self.device - math.log(self.device / self.golden)


def combine_second(parts: Sequence[SecondSums]) -> SecondSums:
    """The record of all *parts* (at least one) together."""
    if len(parts) == 1:
        return parts[0]
    return SecondSums(
        device=total(part.device for part in parts),
        golden=total(part.golden for part in parts),
        weighted_log=total(part.weighted_log for part in parts),
        bad=sum(part.bad for part in parts),
        first_bad=min((part.first_bad for part in parts if part.bad), default=-1),
    )


NO_SECOND = SecondSums(math.nan, math.nan, math.nan, 0, -1)
"""What the second sweep gives where there is nothing to look for."""
