"""Find tensors of like values fast: a few numbers of each, compared all at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphstore.model import TensorRef

Array: TypeAlias = npt.NDArray[Any]

_POINTS = 48
_SMALLEST = 4
"""Tensors of fewer elements, or of one value throughout, look alike by chance."""


@dataclass
class Sketches:
    """Golden tensors, found again by samples of their values or of their sorted values."""

    _by_size: dict[int, list[tuple[TensorRef, Array, Array]]] = field(default_factory=dict)

    def add(self, ref: TensorRef, value: Array) -> None:
        """Remember a tensor if its values say anything."""
        if is_telling(value):
            self._by_size.setdefault(value.size, []).append((ref, *_sketch(value)))

    def nearest(self, value: Array, count: int, *, by_order: bool) -> list[TensorRef]:
        """The *count* tensors of this size whose samples are nearest, nearest first.

        Not *by_order*: samples of the sorted values.
        """
        group = self._by_size.get(value.size, [])
        if not group or not is_telling(value):
            return []
        mine = _sketch(value)[0 if by_order else 1]
        theirs = np.stack([sampled if by_order else ranked for _, sampled, ranked in group])
        scale = np.linalg.norm(theirs, axis=1) + np.finfo(np.float64).tiny
        apart = np.linalg.norm(theirs - mine, axis=1) / scale
        best = np.argsort(apart, kind="stable")[:count]
        return [group[place][0] for place in best.tolist()]

    def sizes(self) -> Iterable[int]:
        """The element counts there are."""
        return self._by_size.keys()


def is_telling(value: Array) -> bool:
    """Whether a tensor's values can identify it."""
    if value.size < _SMALLEST or value.dtype.kind not in "fiu":
        return False
    flat = value.reshape(-1)
    return bool(np.any(flat != flat[0]))


def _sketch(value: Array) -> tuple[Array, Array]:
    flat = np.nan_to_num(np.asarray(value, np.float64).reshape(-1))
    # strides that share no factor with image sizes, so that padding does not hide all
    places = (np.arange(_POINTS, dtype=np.int64) * 7919 * 31) % flat.size
    ranks = np.linspace(0, flat.size - 1, _POINTS).astype(np.int64)
    return flat[places], np.sort(flat)[ranks]
