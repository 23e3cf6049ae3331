"""Numbers that stand for infinity.

Attention masks add -1e9 or -3.4e38 to scores that are to be ignored. float16 does not hold that:
one device has -65504 there, one -10000 as converters write it, one minus infinity. All serve
equally well and say nothing of the op. Any other value there is compared with -65504. And -3.4e38,
float32's least number, is another in bfloat16, and minus infinity where it is multiplied or
rounded up, whatever the rest is computed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.values import is_numeric

END_OF_FLOAT32 = 255 * 2.0**120
"""The largest number of bfloat16: what float32 has beyond it is that one there, or infinity."""
MASKING = frozenset(
    {
        *("Add", "AddV2", "Sub", "Where", "Select", "SelectV2"),
        *("Min", "Max", "Minimum", "Maximum", "Clip"),
    }
)
_MAKING_MASKS = MASKING | {"Mul"}
"""Masks are also made by multiplying: (1 - mask) times the constant."""


def sentinel_values(constant: Array, largest: float) -> tuple[float, ...]:
    """The different finite values of *constant* beyond the *largest* of a type, in ascending order;
    () if there are none, or so many that the constant is data."""
    if constant.dtype.kind != "f" or not constant.size:
        return ()
    with np.errstate(invalid="ignore"):
        beyond = constant[np.isfinite(constant) & (np.abs(constant) > largest)]
    sentinels = np.unique(beyond)
    return tuple(map(float, sentinels)) if sentinels.size <= calibration.MASK_VALUES else ()


def is_mask_maker(op_type: str) -> bool:
    """Whether a constant operand of ops of this type may stand for infinity."""
    return op_type in _MAKING_MASKS


@dataclass(frozen=True, slots=True)
class Mask:
    """The elements that stand for infinity (bool arrays of the tensor's shape): ``held`` where the
    device has some large number, too, ``missed`` where it has not; ``largest`` of its type."""

    held: Array
    missed: Array
    largest: float


def without(mask: Mask | None, value: Array) -> Array:
    """*value* with 0 where *mask* is held, and clipped to the type's range where it is missed."""
    if mask is None:
        return value
    unmasked = np.where(mask.held.reshape(value.shape), value.dtype.type(0), value)
    if not mask.missed.any():
        return unmasked
    within = np.clip(unmasked, -mask.largest, mask.largest)
    return np.where(mask.missed.reshape(value.shape), within, unmasked)


def standing_for_infinity(
    reference: Array, device: Array, huge: tuple[float, ...], largest: float
) -> Mask | None:
    """The elements where *reference* is near one of the values *huge*, or at the end of float32
    and *device* past the *largest* number of its type; None if there are none, or *device* has
    another number of elements."""
    if reference.dtype.kind != "f" or not is_numeric(device) or reference.size != device.size:
        return None
    there = np.zeros(reference.shape, np.bool_)
    # 1.01 times a number near the largest float32 overflows, which is fine here.
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.asarray(reference, np.float64)
        for value in huge:
            there |= np.abs(wide - value) <= calibration.SAME_CONSTANT * abs(value)
        actual = device.reshape(reference.shape)
        same_side = np.signbit(actual) == np.signbit(wide)
        agreeing = same_side & (np.abs(actual) >= calibration.MASK_LEAST)
        ended = same_side & (np.abs(wide) >= END_OF_FLOAT32) & (np.abs(actual) >= largest)
    ended &= np.isfinite(wide)
    if not (there.any() or ended.any()):
        return None
    return Mask((there & agreeing) | ended, there & ~agreeing & ~ended, largest)


def past_the_end(
    reference: Array,
    device: Array,
    feeds: Iterable[Array],
    huge: tuple[float, ...],
    largest: float,
) -> Mask | None:
    """The elements where a mask value was scaled past the *largest* number of the type and *device*
    (with as many elements) is infinite; None if there are none.

    The mask value is an element of one of the inputs *feeds*, or near one of *huge*.
    """
    if reference.dtype.kind != "f" or device.dtype.kind != "f" or device.size != reference.size:
        return None
    actual = device.reshape(reference.shape)
    there = np.isinf(actual) & (np.abs(reference) > largest)
    there &= np.signbit(actual) == np.signbit(reference)
    if not there.any():
        return None
    standing = np.zeros(reference.shape, np.bool_)
    for value in feeds:
        if value.dtype.kind == "f" and value.shape == reference.shape:
            standing |= np.abs(value) >= largest
    for number in huge:
        scale = np.asarray(reference, np.float64) / number
        standing |= (scale >= 1 / calibration.MASK_SCALED) & (scale <= calibration.MASK_SCALED)
    there &= standing
    return Mask(there, np.zeros_like(there), largest) if there.any() else None


def stands_for_infinity(value: Array) -> Array | None:
    """The elements where *value* (float) repeats its largest magnitude exactly: a sentinel, which
    the noise of sums in another order must not disturb. None if there are none."""
    if not value.size:
        return None
    sizes = np.abs(value)
    largest = sizes.max()
    if not calibration.MASK_LEAST <= largest < np.inf:
        return None
    there = sizes == largest
    return there if np.count_nonzero(there) > 1 else None
