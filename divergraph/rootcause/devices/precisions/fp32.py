"""float32: nothing is rounded to fewer digits, but sums run in another order.

Reason: golden was computed in float32 as well, so its own rounding cannot be imitated; what can
is how far two float32 devices are apart. Source: the healthy devices of calibration.
"""

from __future__ import annotations

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import Disturb, Precision
from graphstore.model import DType


class Single(Precision):
    """float32; matrix operands and functions may be coarser, see the files beside."""

    name = "fp32"
    unit = 2.0**-24
    dtype: DType | None = DType.FLOAT32

    @property
    def least_units(self) -> float:
        """Sums in another order."""
        return calibration.LEAST_UNITS_32_BIT

    @property
    def value_units(self) -> float:
        """Sums in another order."""
        return calibration.FP32_UNITS

    def rounded(self, value: Array) -> Array:
        """As it is."""
        return value

    def emulate(self, value: Array, disturb: Disturb) -> Array:
        """Off by a few units of the last place, each element by chance."""
        return disturb(value, self.value_units * self.unit)


PRECISION = FP32 = Single()
