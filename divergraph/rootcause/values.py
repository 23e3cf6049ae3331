"""How far the device's values are from a reference."""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.contract import Array

_BLOCK = 1 << 15
TINY = float(np.finfo(np.float32).tiny) ** 4
"""In place of 0 under a fraction: less than squares of float32, whose sums over it are finite."""


def is_numeric(value: Array) -> bool:
    """Whether *value* holds booleans, integers, floats or complex numbers."""
    return value.dtype.kind in "biufc"


def norms(device: Array, reference: Array) -> tuple[float, float]:
    """(|device - reference|, |reference|): Euclidean norms in float64 (complex128) over the places
    where the reference is finite.

    Both arrays have the same number of elements. The first norm is infinite if the device is not
    finite at one of these places.
    """
    device_flat, right = device.reshape(-1), reference.reshape(-1)
    kind = np.complex128 if "c" in (device_flat.dtype.kind, right.dtype.kind) else np.float64
    error = scale = 0.0
    # Block by block, so that temporaries stay in the cache and BLAS starts no threads.
    for start in range(0, right.size, _BLOCK):
        there = np.asarray(right[start : start + _BLOCK], kind)
        here = np.asarray(device_flat[start : start + _BLOCK], kind)
        with np.errstate(all="ignore"):
            size = _square(there)
            if not math.isfinite(size):
                finite = np.isfinite(there)
                here, there = here[finite], there[finite]
                size = _square(there)
            error += _square(here - there)
        scale += size
    return (math.inf if math.isnan(error) else math.sqrt(error)), math.sqrt(scale)


def relative(device: Array, reference: Array) -> float:
    """|device - reference| / |reference|; infinite if only the reference is zero or finite."""
    error, scale = norms(device, reference)
    if error == 0.0:
        return 0.0
    return error / scale if scale > 0.0 else math.inf


def cosine(one: Array, other: Array) -> float:
    """The cosine between two float arrays of one shape; 0 if one of them is zero."""
    first, second = one.reshape(-1), other.reshape(-1)
    size = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(np.sum(first * second)) / size if size else 0.0


def correlation(one: Array, other: Array) -> float:
    """Pearson's correlation of two float arrays of one shape; 0 where one of them is constant."""
    return cosine(one - one.mean(), other - other.mean())


def robust_spread(numbers: Array) -> float:
    """The standard deviation of float *numbers* as their median distance from the median tells it,
    which a few that lie far off do not move."""
    return 1.4826 * float(np.median(np.abs(numbers - np.median(numbers))))


def _square(values: Array) -> float:
    if values.dtype.kind == "c":
        return float(np.sum(np.square(values.real) + np.square(values.imag)))
    return float(np.sum(np.square(values)))


def same_shape(value: Array, shape: tuple[int, ...]) -> Array | None:
    """*value* in *shape*, None if it has another number of elements."""
    if value.shape == shape:
        return value
    return value.reshape(shape) if value.size == math.prod(shape) else None
