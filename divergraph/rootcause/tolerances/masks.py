"""Numbers that stand for infinity.

Masks of attention add -1e9 or -3.4e38 to what is not to be seen. No 16 bits hold that:
one device has -65504 there, one -10000 as converters put it, one minus infinity. All are
as good, and none says anything of the op. Anything else there is held against -65504.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.values import is_numeric

MASKING = frozenset(
    {
        *("Add", "AddV2", "Sub", "Where", "Select", "SelectV2"),
        *("Min", "Max", "Minimum", "Maximum", "Clip"),
    }
)
_MAKING_MASKS = MASKING | {"Mul"}
"""Masks are made by a product with a constant, too: of 1 where nothing is to be seen."""


def sentinel_values(constant: Array, largest: float) -> tuple[float, ...]:
    """The few values of *constant* beyond the *largest* of a type; () for another constant."""
    if constant.dtype.kind != "f" or not constant.size:
        return ()
    with np.errstate(invalid="ignore"):
        beyond = constant[np.isfinite(constant) & (np.abs(constant) > largest)]
    found = np.unique(beyond)
    return tuple(map(float, found)) if found.size <= calibration.MASK_VALUES else ()


def is_mask_maker(op_type: str) -> bool:
    """Whether constants of such an op may be there to stand for infinity."""
    return op_type in _MAKING_MASKS


@dataclass(frozen=True, slots=True)
class Mask:
    """The places of a tensor whose values stand for infinity: those where the device holds
    as much as it can, ``largest``, and those where it does not."""

    held: Array
    missed: Array
    largest: float


def without(mask: Mask | None, value: Array) -> Array:
    """*value* with 0 where *mask* is held, and within the type where it is missed."""
    if mask is None:
        return value
    found = np.where(mask.held.reshape(value.shape), value.dtype.type(0), value)
    if not mask.missed.any():
        return found
    within = np.clip(found, -mask.largest, mask.largest)
    return np.where(mask.missed.reshape(value.shape), within, found)


def standing_for_infinity(
    reference: Array, device: Array, huge: tuple[float, ...], largest: float
) -> Mask | None:
    """Where *reference* is one of the values *huge*, against a *device* of its size; None if
    nowhere."""
    if not huge or reference.dtype.kind != "f" or not is_numeric(device):
        return None
    if reference.size != device.size:
        return None
    there = np.zeros(reference.shape, np.bool_)
    # Any float32 near the largest one times 1.01 is infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.asarray(reference, np.float64)
        for value in huge:
            there |= np.abs(wide - value) <= calibration.MASK_NEAR * abs(value)
        given = device.reshape(reference.shape)
        held = (np.abs(given) >= calibration.MASK_LEAST) & (np.signbit(given) == np.signbit(wide))
    return Mask(there & held, there & ~held, largest) if there.any() else None


def past_the_end(
    reference: Array,
    device: Array,
    given: Iterable[Array],
    huge: tuple[float, ...],
    largest: float,
) -> Mask | None:
    """Where what stands for infinity was scaled past the *largest* number, and *device* (of the
    reference's size) has infinity; None if nowhere.

    It stands in one of *given*, as that number, or was made of one of *huge*.
    """
    if reference.dtype.kind != "f" or device.dtype.kind != "f" or device.size != reference.size:
        return None
    found = device.reshape(reference.shape)
    there = np.isinf(found) & (np.abs(reference) > largest)
    there &= np.signbit(found) == np.signbit(reference)
    if not there.any():
        return None
    standing = np.zeros(reference.shape, np.bool_)
    for value in given:
        if value.dtype.kind == "f" and value.shape == reference.shape:
            standing |= np.abs(value) >= largest
    for number in huge:
        scale = np.asarray(reference, np.float64) / number
        standing |= (scale >= 1 / calibration.MASK_SCALED) & (scale <= calibration.MASK_SCALED)
    there &= standing
    return Mask(there, np.zeros_like(there), largest) if there.any() else None


def stands_for_infinity(value: Array) -> Array | None:
    """Where *value* (float) holds its largest size over and over: a number that stands for
    infinity is no sum, and nothing makes it a little different. None if nowhere."""
    if not value.size:
        return None
    sizes = np.abs(value)
    most = sizes.max()
    if not calibration.MASK_LEAST <= most < np.inf:
        return None
    there = sizes == most
    return there if np.count_nonzero(there) > 1 else None
