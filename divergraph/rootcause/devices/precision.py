"""The arithmetics a device may compute in: found from its dumps, and emulated.

Each is one module of ``precisions``, or an entry point of the group ``divergraph.precisions``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array
from divergraph.files.discovered import discovered
from divergraph.rootcause import calibration
from graphstore.errors import InputError
from graphstore.model import DType

ENTRY_POINT_GROUP = "divergraph.precisions"
LOOKED_AT = 4096
"""Elements of a tensor that are looked at, evenly spaced: none that fits 16 bits by chance fits in
4096 places. Bounds cost."""
SMALLEST_NORMAL_FP32 = 2.0**-126

Disturb: TypeAlias = Callable[[Array, float], Array]
"""Gives an array with each element off by a random relative error of up to the number."""


class Precision(ABC):
    """An arithmetic of a device. There is one instance of each, compared by identity.

    ``name`` is its word for ``--precision`` and in the analysis. ``unit`` is the unit roundoff: the
    largest relative error of one rounding. Below ``smallest_normal`` devices keep few bits, or
    none. ``largest`` is the largest finite number, None where it is that of float32, which no model
    exceeds. ``dtype`` is the element type of dumps that show this arithmetic. ``least_kept`` is
    what converters raise smaller constants to, 0 if they do not. ``coarseness`` orders hypotheses:
    values of a coarse type mostly fit the finer ones, too, so the coarsest is tried first; 0 does
    not round.
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
        """The least noise floor of a large tensor, in multiples of ``unit``."""
        return calibration.LEAST_UNITS_16_BIT

    @property
    def value_units(self) -> float:
        """How far one value may be off by chance, in multiples of ``unit``."""
        return 1.0

    @abstractmethod
    def rounded(self, value: Array) -> Array:
        """*value* (float) rounded to this arithmetic's digits, in the dtype it had. Numbers beyond
        ``largest`` keep their size: an overflow is a fault, not rounding."""

    def emulate(self, value: Array, disturb: Disturb) -> Array:
        """*value* (float) as the device may have made it, in the same dtype: rounded, or
        disturbed at random by arithmetics that do not round."""
        return self.rounded(value)

    def fits(self, value: Array) -> bool:
        """Whether every element of *value* (float) is a number of this arithmetic."""
        return np.array_equal(self.rounded(value), value, equal_nan=True)


@cache
def precisions() -> tuple[Precision, ...]:
    """All installed arithmetics, the coarsest first."""
    entries = discovered(f"{__package__}.precisions", "PRECISION", ENTRY_POINT_GROUP)
    installed = [entry for entry in entries if isinstance(entry, Precision)]
    return tuple(sorted(installed, key=lambda precision: (-precision.coarseness, precision.name)))


def precision_named(name: str) -> Precision:
    """The arithmetic of this name.

    Raises:
        InputError: there is none; the hint lists those there are.
    """
    for precision in precisions():
        if precision.name == name:
            return precision
    names = ", ".join(sorted(precision.name for precision in precisions()))
    raise InputError(f"no precision {name!r}", hint=f"known are {names}")


def half_of(dtype: DType | None) -> Precision | None:
    """The rounding arithmetic whose dumps have element type *dtype*; None if there is none."""
    return next(
        (precision for precision in precisions() if precision.rounds and precision.dtype is dtype),
        None,
    )


def precision_of(value: Array, dtype: DType | None) -> Precision | None:
    """The arithmetic whose numbers a device tensor holds; None if the values do not tell.

    *dtype* is the stored type; a float32 dump may hold values that were rounded to 16 bits.
    """
    declared = half_of(dtype) if dtype is not None else None
    if declared is not None:
        return declared
    if value.dtype.kind != "f":
        return None
    flat = value.reshape(-1)
    sample = flat[:: max(1, flat.size // LOOKED_AT)]
    sample = sample[np.isfinite(sample) & (sample != 0)]
    # A few values, or whole numbers, fit 16 bits whatever computed them.
    few = np.unique(sample).size < calibration.PRECISION_VALUES
    if few or np.array_equal(np.rint(sample), sample):
        return None
    rounding = (
        precision for precision in precisions() if precision.rounds and precision.fits(sample)
    )
    return next(rounding, precision_named("fp32"))


def fits_half(value: Array) -> bool:
    """Whether converters to fp16 only round *value* (float), and neither clip nor raise it."""
    sizes = np.abs(value[value != 0])
    unchanged = (sizes <= calibration.KEPT_LARGEST) & (sizes >= calibration.CONVERTED_LEAST)
    return bool(np.all(unchanged))
