"""The second sweep over a pair: the divergence and the bad elements.

Both need the minimum, maximum and norm of the whole tensor first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from divergraph.metrics.error_places import Places
from divergraph.metrics.native_values import errors_and_finiteness
from divergraph.metrics.reductions import summed
from divergraph.metrics.sums import DistributionScale, SecondSums, combine_second
from divergraph.values.array_types import Array, Bool, Float64

KEPT = 1024
"""Records of blocks that are collected before they are combined, so that memory does not grow."""

PIECE = 16_384
"""Elements treated at once where a block needs many passes."""

_CLOSE = 16.0
"""The largest ratio of the minimum to the mean distance from it at which the minimum may be
subtracted from the mean, instead of from each value, without losing more than a digit."""


@dataclass(frozen=True, slots=True)
class Second:
    """What the second sweep needs to know of the whole tensor: the ``scales`` of device and golden
    for the divergence (None: not wanted), and the tolerances of bad elements (``atol`` infinite:
    not wanted), which are added to ``places`` if given."""

    scales: tuple[DistributionScale, DistributionScale] | None
    atol: float
    rtol: float
    places: Places | None = None


NOTHING = Second(None, math.inf, 0.0)


def distribute(values: Float64, scale: DistributionScale, low: float, mean: float) -> float:
    """Turn a block into a part of a distribution; its sum. *low* bounds the values."""
    base = scale.base
    if base:
        np.subtract(values, base, out=values)
    # Only blocks with values near the minimum need the floor.
    if low - base < scale.floor:
        np.maximum(values, scale.floor, out=values)
    elif abs(base) <= _CLOSE * (mean - base):
        return (mean - base) * len(values)
    return summed(values)


def count_bad(device: Array, golden: Array, second: Second, start: int) -> tuple[int, int]:
    """How many elements of a flat block are bad, and the place of the first (-1 without one)."""
    count, first = 0, -1
    for begin in range(0, len(device), PIECE):
        end = begin + PIECE
        flags = bad_elements(device[begin:end], golden[begin:end], second.atol, second.rtol)
        some = int(np.count_nonzero(flags))
        if some and not count:
            first = start + begin + int(flags.argmax())
        count += some
        if some and second.places is not None:
            second.places.add(np.flatnonzero(flags) + (start + begin))
    return count, first


def bad_elements(device: Array, golden: Array, atol: float, rtol: float) -> Bool:
    """A mask of the bad elements of a flat block, compared in their own types."""
    error, _ = errors_and_finiteness(device, golden)
    bound = np.abs(golden.astype(np.float64))
    bound *= rtol
    bound += atol
    # An infinite golden value has no bound; the same value twice is never bad.
    result: Bool = (error > 0.0) & ~((error <= bound) & np.isfinite(error))
    return result


def folded_second(records: Iterable[SecondSums]) -> SecondSums:
    """The second sums of blocks, combined in their order."""
    done: list[SecondSums] = []
    for record in records:
        done.append(record)
        if len(done) == KEPT:
            done = [combine_second(done)]
    return combine_second(done)
