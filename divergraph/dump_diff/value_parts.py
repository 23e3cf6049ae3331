"""A few values of a tensor pair, and how all of them are distributed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from divergraph.values.array_types import Array, Float64, Int64
from graphstore.errors import InputError

MOST_VALUES = 10_000
"""So many numbers of each side are listed at once."""
_PART = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(\d*))?")
_DIGITS = 18
"""Longer numbers are no index of any tensor."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ValueSlice:
    """The values of both sides at ``at``: an index, or a range, of each axis of golden's tensor.
    ``device`` and ``golden`` have the shape of what is left."""

    at: str
    device: Array
    golden: Array


@dataclass(frozen=True, slots=True, eq=False)
class ValueHistogram:
    """How many values of each side lie between two neighbours of ``edges``, the last edge
    included. ``device_nonfinite`` and ``golden_nonfinite`` lie nowhere."""

    edges: Float64
    device: Int64
    golden: Int64
    device_nonfinite: int
    golden_nonfinite: int


def values_at(device: Array, golden: Array, at: str) -> ValueSlice:
    """The values at a place such as ``0,3:9,:``; axes that are not named are taken whole.

    Raises:
        InputError: there is no such place, or it holds more than ``MOST_VALUES``.
    """
    shape = golden.shape
    parts = [part.strip() for part in at.split(",")] if at.strip() else []
    if len(parts) > len(shape):
        message = f"the tensor has {len(shape)} axes, not {len(parts)}"
        raise InputError(message, where=at)
    index = tuple(_part(part, size) for part, size in zip(parts, shape, strict=False))
    device, golden = np.asarray(device[index]), np.asarray(golden[index])
    if golden.size > MOST_VALUES:
        sizes = "x".join(map(str, golden.shape))
        message = f"these are {golden.size} values ({sizes}), and {MOST_VALUES} are listed at most"
        raise InputError(message, where=at, hint="give a range for each axis, as 0,3:9,0:100")
    return ValueSlice(at, real_numbers(device), real_numbers(golden))


def _part(text: str, size: int) -> int | slice:
    match = _PART.fullmatch(text)
    if match is None or any(len(part or "") > _DIGITS for part in match.groups()):
        raise InputError(f"{text!r} is no index and no range", hint="as 0,3:9,:")
    if match[1] is not None:
        if not -size <= int(match[1]) < size:
            raise InputError(f"there is no index {match[1]} in an axis of {size}")
        return int(match[1])
    start, stop, step = (int(part) if part else None for part in match.groups()[1:])
    if step == 0:
        raise InputError(f"{text!r} takes no step")
    return slice(start, stop, step)


def distribution(device: Array, golden: Array, bins: int) -> ValueHistogram:
    """How the values of both sides are distributed over as many *bins*, the same for both.

    Raises:
        InputError: they are no real numbers.
    """
    ends = [*_ends(device), *_ends(golden)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    # numpy's own rule for what is all the same
    edges = np.histogram_bin_edges(np.array([low, high]), bins)
    (counts, nonfinite), (golden_counts, golden_odd) = (
        _counts(device, edges),
        _counts(golden, edges),
    )
    return ValueHistogram(edges, counts, golden_counts, nonfinite, golden_odd)


def _blocks(values: Array) -> list[Array]:
    flat = values.reshape(-1)
    return [flat[at : at + _BLOCK] for at in range(0, prod(values.shape), _BLOCK)]


def _ends(values: Array) -> list[float]:
    """The least and the largest finite value of each block."""
    blocks = (_finite(block) for block in _blocks(values))
    return [float(end) for block in blocks if block.size for end in (block.min(), block.max())]


def _counts(values: Array, edges: Float64) -> tuple[Int64, int]:
    """(how many lie in each bin, how many in none)."""
    counts = np.zeros(len(edges) - 1, np.int64)
    for block in _blocks(values):
        counts += np.histogram(_finite(block), edges)[0]
    return counts, values.size - int(counts.sum())


def _finite(block: Array) -> Array:
    real = real_numbers(block)
    return real[np.isfinite(real)]


def real_numbers(values: Array) -> Array:
    """*values* as numbers that numpy knows itself: small floats become float32.

    Raises:
        InputError: they are no real numbers.
    """
    if values.dtype.kind in "biuf":
        return values
    try:
        return values.astype(np.float32, casting="safe")
    except TypeError as error:
        raise InputError(f"values of {values.dtype} are no real numbers") from error
