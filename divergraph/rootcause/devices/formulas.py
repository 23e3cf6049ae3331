"""Formulas by which devices compute a function that is another, if only a little.

Compilers know the error function as part of a Gelu, and compute that by tanh or by a sigmoid: off
by up to 5e-4 or 2e-2, in all ops alike and at the same places. What is off so is no fault of one
op; which formula it is, the very errors show.

Source of both: "Gaussian Error Linear Units" (Hendrycks and Gimpel, 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array

_CUBIC = 0.044715
_SLOPE = 1.702


def _by_tanh(x: Array) -> Array:
    """2 P(X < x) - 1 of a normal X, nearly."""
    return np.asarray(np.tanh(math.sqrt(2.0 / math.pi) * (x + _CUBIC * x**3)))


def _by_sigmoid(x: Array) -> Array:
    return np.asarray(np.tanh(0.5 * _SLOPE * x))


@dataclass(frozen=True, slots=True)
class Formula:
    """A ``function`` of one array (float64) that stands for another one, by its ``name``; it is off
    by up to ``off`` of the larger of the value and 1."""

    name: str
    off: float
    function: Callable[[Array], Array]

    def __call__(self, value: Array) -> Array:
        """The function of *value* (float), in its dtype."""
        with np.errstate(all="ignore"):
            return np.asarray(self.function(np.asarray(value, np.float64)), value.dtype)


def _alike(name: str, off: float, normal: Callable[[Array], Array]) -> tuple[Formula, Formula]:
    """The formula of the error function, and that of the Gelu made of it."""
    erf = Formula(name, off, lambda x: normal(x * math.sqrt(2.0)))
    return erf, Formula(name, off, lambda x: np.asarray(0.5 * x * (1.0 + normal(x))))


_ERF_BY_TANH, GELU_BY_TANH = _alike("tanh", 5e-4, _by_tanh)
_ERF_BY_SIGMOID, GELU_BY_SIGMOID = _alike("sigmoid", 2e-2, _by_sigmoid)

FORMULAS: Mapping[str, tuple[Formula, ...]] = {
    "Erf": (_ERF_BY_TANH, _ERF_BY_SIGMOID),
    "Gelu": (GELU_BY_TANH, GELU_BY_SIGMOID),
}
"""By op type of one input the formulas that stand for it, the nearest first."""


@dataclass(frozen=True, slots=True)
class Approximation:
    """A function whose values are off by up to ``size`` at random, and where a ``formula`` stands
    for it by what that is off."""

    size: float
    formula: Formula | None = None

    @property
    def off(self) -> float:
        """The largest relative error of values near 1."""
        return self.size if self.formula is None else max(self.size, self.formula.off)

    @classmethod
    def told(cls, kind: str, off: float) -> Approximation:
        """How functions of type *kind* are approximated that are said to be *off* by so much."""
        formulas = FORMULAS.get(kind.removeprefix(fused("")), ())
        formula = next((formula for formula in formulas if formula.off == off), None)
        return cls(0.0, formula) if formula is not None else cls(off)


Approximated = Mapping[str, Approximation]
"""By op type how it is approximated; types not in it are exact. What is computed together with
other ops may be so by another kernel: ``fused`` has its name."""


def fused(kind: str) -> str:
    """The name of functions of type *kind* that are computed together with other ops."""
    return f"fused {kind}"
