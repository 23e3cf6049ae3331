"""Sums over values in their own types: float64 beyond float32's range and digits, 64-bit
integers, and tensors with NaN or infinities, of which only the finite part is summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Scaled(NamedTuple):
    """``value`` times 2 to the power of ``exponent``: squares of float64 extremes fit."""

    value: float
    exponent: int = 0

    @classmethod
    def total(cls, parts: Sequence[Scaled]) -> Scaled:
        """The sum, rounded once."""
        known = [part.exponent for part in parts if part.value]
        exponent = max(known, default=0)
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
        whole = Scaled.total([part.total for part in some])
        less_mean = whole.part(-count)
        shifts = []
        for part in some:
            shift = Scaled.total([part.total.part(part.elements), less_mean])
            # A fraction in [0.5, 1), so that its square is always a float.
            fraction, more = math.frexp(shift.value)
            shifts.append(Scaled(part.elements * fraction**2, 2 * (shift.exponent + more)))
        return cls(
            elements=count,
            total=whole,
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
        return cls(
            device=OwnSide.combined([part.device for part in parts]),
            golden=OwnSide.combined([part.golden for part in parts]),
            device_square=Scaled.total([part.device_square for part in parts]),
            golden_square=Scaled.total([part.golden_square for part in parts]),
            product=Scaled.total([part.product for part in parts]),
            square_error=Scaled.total([part.square_error for part in parts]),
        )
