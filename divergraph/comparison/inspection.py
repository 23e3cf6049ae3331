"""A closer look at one tensor pair: a histogram of its errors, ULP distances, and where
the bad elements sit. Slower than :func:`divergraph.comparison.measure.measure`, so it is
for tensors that are over a limit, or asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from graphstore.model import DType


@dataclass(frozen=True, slots=True)
class ErrorHistogram:
    """Elements by size of |x - y|: ``decades[d]`` counts 10^d <= |x - y| < 10^(d+1).

    ``equal`` counts equal ones (both NaN too), ``nonfinite`` those where NaN or infinity
    stands against another value.
    """

    equal: int
    nonfinite: int
    decades: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UlpDistances:
    """Distances in units of the last place of ``unit``, the coarser of both float types,
    over the pairs finite on both sides. ``powers[k]`` counts 2^k <= distance < 2^(k+1)."""

    unit: DType
    largest: float
    mean: float
    powers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its index in the compared shape, and its values on both sides."""

    index: tuple[int, ...]
    device: float
    golden: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """``where_bad`` names the pattern of the bad elements (``channels 8-15 of axis 1``,
    empty if there is none), ``largest`` the elements of the largest error, worst first."""

    histogram: ErrorHistogram
    ulps: UlpDistances | None
    where_bad: str
    largest: tuple[Element, ...]


def inspect(
    device: NDArray[Any],
    golden: NDArray[Any],
    *,
    atol: float,
    rtol: float,
    types: tuple[DType | None, DType | None] = (None, None),
    layout: str | None = None,
    top: int = 0,
) -> Inspection:
    """The closer look at *device* (x) against *golden* (y), of one length.

    *atol* and *rtol* say which elements are bad (those of the tensor's figures), *types*
    what the sides were stored as (bfloat16 comes as float32 arrays; None: the array's own
    type), *layout* the letters of golden's axes (``NCHW``), *top* how many of the largest
    errors are listed. Indices are of golden's shape.

    Raises:
        ValueError: as :func:`divergraph.comparison.measure.measure`.
    """
    raise NotImplementedError
