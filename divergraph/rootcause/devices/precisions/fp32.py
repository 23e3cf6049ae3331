"""float32: nothing is rounded to fewer digits, but sums run in another order.

Reason: golden is float32 as well, so there is no rounding to emulate; instead values are disturbed
by as much as two float32 devices differ. Source: the healthy devices of ``calibration``.
"""

from __future__ import annotations

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import Disturb, Precision
from graphstore.model import DType


class Single(Precision):
    """float32. Matrix operands (``rootcause/arithmetic``) and ``functions`` may be coarser."""

    name = "fp32"
    unit = 2.0**-24
    dtype: DType | None = DType.FLOAT32

    @property
    def least_units(self) -> float:
        """What sums in another order differ by."""
        return calibration.LEAST_UNITS_32_BIT

    @property
    def value_units(self) -> float:
        """What one sum in another order may differ by."""
        return calibration.FP32_UNITS

    def rounded(self, value: Array) -> Array:
        """*value* itself."""
        return value

    def emulate(self, value: Array, disturb: Disturb) -> Array:
        """*value* with each element off by up to ``value_units`` of its last place, at random."""
        return disturb(value, self.value_units * self.unit)


PRECISION = FP32 = Single()
