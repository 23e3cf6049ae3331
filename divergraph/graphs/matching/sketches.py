"""Find tensors of like values fast: a few numbers of each, compared all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphstore.model import TensorRef

Array: TypeAlias = npt.NDArray[Any]

_POINTS = 48
_SMALLEST = 4
"""Tensors of fewer elements, or of one value throughout, look alike by chance."""
_ANYWAY = 0.5
"""Relative distance of samples up to which a tensor is looked at whatever the nearest is."""
_MUCH_FARTHER = 4.0


Read: TypeAlias = Callable[[TensorRef], "Array | None"]


@dataclass
class Sketches:
    """Golden tensors, found again by samples of their values or of their sorted values.

    ``read`` gives the values of one once more: sorting is put off until somebody asks.
    """

    read: Read
    _by_size: dict[int, list[TensorRef]] = field(default_factory=dict)
    _sampled: dict[int, list[Array]] = field(default_factory=dict)
    _ranked: dict[int, Array] = field(default_factory=dict)

    def add(self, ref: TensorRef, value: Array) -> None:
        """Remember a tensor if its values say anything."""
        if is_telling(value):
            self._by_size.setdefault(value.size, []).append(ref)
            self._sampled.setdefault(value.size, []).append(_sample(value))

    def nearest(self, value: Array, count: int, *, by_order: bool) -> list[TensorRef]:
        """The *count* tensors of this size whose samples are nearest, nearest first.

        Not *by_order*: samples of the sorted values. Those much farther away than the
        nearest are left out.
        """
        refs = self._by_size.get(value.size, [])
        if not refs or not is_telling(value):
            return []
        mine = _sample(value) if by_order else _ranks(value)
        theirs = np.stack(self._sampled[value.size]) if by_order else self._all_ranks(value.size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            apart = np.linalg.norm(theirs - mine, axis=1) / np.linalg.norm(theirs, axis=1)
        apart = np.nan_to_num(apart, nan=0.0)  # zeros on both sides
        best = np.argsort(apart, kind="stable")[:count]
        near = max(_ANYWAY, _MUCH_FARTHER * float(apart[best[0]]))
        return [refs[place] for place in best.tolist() if apart[place] <= near]

    def _all_ranks(self, size: int) -> Array:
        found = self._ranked.get(size)
        if found is None:
            values = (self.read(ref) for ref in self._by_size[size])
            ranks = [np.full(_POINTS, np.inf) if each is None else _ranks(each) for each in values]
            found = self._ranked[size] = np.stack(ranks)
        return found

    def sizes(self) -> Iterable[int]:
        """The element counts there are."""
        return self._by_size.keys()


def is_telling(value: Array) -> bool:
    """Whether a tensor's values can identify it."""
    if value.size < _SMALLEST or value.dtype.kind not in "fiu":
        return False
    flat = value.reshape(-1)
    return bool(np.any(flat != flat[0]))


def _sample(value: Array) -> Array:
    flat = value.reshape(-1)
    # strides that share no factor with image sizes, so that padding does not hide all
    places = (np.arange(_POINTS, dtype=np.int64) * 7919 * 31) % flat.size
    return np.nan_to_num(flat[places].astype(np.float64))


def _ranks(value: Array) -> Array:
    flat = np.nan_to_num(value.reshape(-1))
    ranks = np.linspace(0, flat.size - 1, _POINTS).astype(np.int64)
    return np.sort(flat)[ranks].astype(np.float64)
