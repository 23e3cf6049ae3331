"""The arithmetics a device may compute in: found from its dumps, and imitated.

Each is one file of ``precisions``, or an entry point of the group ``divergraph.precisions``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.registry import discovered
from graphstore.errors import InputError
from graphstore.model import DType

ENTRY_POINT_GROUP = "divergraph.precisions"
_LOOKED_AT = 4096
SMALLEST_NORMAL_FP32 = 2.0**-126

Disturb: TypeAlias = Callable[[Array, float], Array]
"""A value, each element off by up to so much of itself by chance."""


class Precision(ABC):
    """An arithmetic of a device. What is compared by identity: there is one of each.

    ``name`` is the word of ``--precision`` and of the analysis. ``unit`` is the largest relative
    error of one rounding. ``smallest_normal``: of smaller numbers devices keep few bits, or
    none. ``largest`` is the largest number, None where it is that of float32, which no model
    exceeds. ``dtype`` is the element type of dumps that tell of it. ``least_kept`` is what
    converters raise smaller constants to, 0 where they leave them. ``coarseness`` orders
    hypotheses: what fits the coarser one fits the finer one too, so the coarsest is tried first.
    """

    name: str
    unit: float
    smallest_normal = SMALLEST_NORMAL_FP32
    largest: float | None = None
    dtype: DType | None = None
    least_kept = 0.0
    coarseness = 0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<precision {self.name}>"

    @property
    def rounds(self) -> bool:
        """Whether every value is rounded to fewer digits than float32 has, so that its rounding
        can be imitated exactly; else all that is known is how far values may be off."""
        return self.coarseness > 0

    @property
    def least_units(self) -> float:
        """The least floor of many values, in units."""
        return calibration.LEAST_UNITS_16_BIT

    @property
    def value_units(self) -> float:
        """What one value may be off by chance, in units: one rounding."""
        return 1.0

    @abstractmethod
    def rounded(self, value: Array) -> Array:
        """*value* (float) with this arithmetic's digits, in the element type it had. An overflow
        is no rounding: it is a fault, and values beyond the largest keep their size."""

    def emulate(self, value: Array, disturb: Disturb) -> Array:
        """*value* (float) as the device may have made it: rounded."""
        return self.rounded(value)

    def fits(self, value: Array) -> bool:
        """Whether *value* (float) may have been rounded by this arithmetic."""
        return np.array_equal(self.rounded(value), value, equal_nan=True)


@cache
def precisions() -> tuple[Precision, ...]:
    """All that are installed, the coarsest first."""
    found = discovered(f"{__package__}.precisions", "PRECISION", ENTRY_POINT_GROUP)
    known = [each for each in found if isinstance(each, Precision)]
    return tuple(sorted(known, key=lambda each: (-each.coarseness, each.name)))


def precision_named(name: str) -> Precision:
    """The arithmetic of this name.

    Raises:
        InputError: none is called so.
    """
    for each in precisions():
        if each.name == name:
            return each
    known = ", ".join(sorted(each.name for each in precisions()))
    raise InputError(f"no precision {name!r}", hint=f"known are {known}")


def half_of(dtype: DType | None) -> Precision | None:
    """The arithmetic that rounds whose dumps have element type *dtype*; None for other types."""
    return next((each for each in precisions() if each.rounds and each.dtype is dtype), None)


def precision_of(value: Array, dtype: DType | None) -> Precision | None:
    """The precision the values of a device tensor are in; None if they do not tell.

    A float32 dump may hold values that were rounded to 16 bits before.
    """
    told = half_of(dtype) if dtype is not None else None
    if told is not None:
        return told
    if value.dtype.kind != "f":
        return None
    flat = value.reshape(-1)
    sample = flat[:: max(1, flat.size // _LOOKED_AT)]
    sample = sample[np.isfinite(sample) & (sample != 0)]
    # Few values, and whole numbers, fit 16 bits whatever computed them.
    few = np.unique(sample).size < calibration.PRECISION_VALUES
    if few or np.array_equal(np.rint(sample), sample):
        return None
    rounding = (each for each in precisions() if each.rounds and each.fits(sample))
    return next(rounding, precision_named("fp32"))


def fits_half(value: Array) -> bool:
    """Whether converters to fp16 leave *value* (float) as it is but for rounding."""
    sizes = np.abs(value[value != 0])
    kept = (sizes <= calibration.KEPT_LARGEST) & (sizes >= calibration.CONVERTED_LEAST)
    return bool(np.all(kept))
