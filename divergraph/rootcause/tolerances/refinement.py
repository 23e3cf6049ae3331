"""What else may explain an error over its floor, before an op is called suspect.

Three things healthy devices do that the floor leaves out, as they hardly ever matter:

* A dump holds a value rounded to the device's type; the next op may have been given it
  unrounded, from a register or a buffer of float32. Where inputs cancel that is all there is.
* Numbers below the smallest normal one of a type are kept with few bits or set to zero.
* Converters raise constants their type cannot hold to the smallest they keep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import SMALLEST_NORMAL_FP32
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.tolerances.masks import Mask, without
from divergraph.rootcause.tolerances.noise_floor import Floors, floor_of
from divergraph.rootcause.values import norms


@dataclass(frozen=True, slots=True)
class ToleranceEstimate:
    """The reference (NaN where nothing is to be measured), the relative floor, and the
    absolute one: a norm below which no error says anything. ``masked`` are the places of
    values that stand for infinity; the reference is 0 there, or as much as the device was to
    hold. ``imitations`` are of the reference's shape, as healthy arithmetic may have made it;
    ``expected`` is what a device that quantises was to make, where that is known exactly and
    the error is against that."""

    reference: Array
    floor: float
    absolute: float = 0.0
    masked: Mask | None = None
    imitations: tuple[Array, ...] = ()
    expected: Array | None = None


def look_again(
    floors: Floors,
    group: Group,
    given: Mapping[str, Array],
    device: Array,
    first: ToleranceEstimate,
) -> ToleranceEstimate:
    """*first* with what else explains an error of *device* (of the reference's size)."""
    reference = first.reference
    if reference.dtype.kind != "f" or device.dtype.kind != "f":
        return first
    if device.size != reference.size or reference.size == 0:
        return first
    device = device.reshape(reference.shape)
    floor, imitations = first.floor, first.imitations
    for drawn in _drawn(floors, group, given, reference.size):
        doubted = without(first.masked, drawn) if drawn.shape == reference.shape else drawn
        off = floor_of(reference, doubted, floors.precision, len(group.ops))
        if doubted.shape == reference.shape and (
            len(imitations) == len(first.imitations) or off > floor
        ):
            imitations += (doubted,)
        floor = max(floor, off)
    narrow = floors.precision.fits(device)  # else held in more bits than the device computes in
    normal = floors.precision.smallest_normal if narrow else SMALLEST_NORMAL_FP32
    spacing = (floors.precision.least_kept if narrow else 0.0) or normal
    absolute = spacing * math.sqrt(reference.size)
    raised = floors.raised(group, given) if narrow else None
    if raised is not None and raised.shape == reference.shape:
        raised = without(first.masked, raised)
        absolute = max(absolute, _among_small(raised, reference, normal))
        imitations += (raised,)
    return replace(
        first,
        reference=_without_flushed(device, reference, normal),
        floor=floor,
        absolute=absolute,
        imitations=imitations,
    )


def _drawn(floors: Floors, group: Group, given: Mapping[str, Array], size: int) -> Iterator[Array]:
    """What healthy arithmetic may have made as well, rounded by chance once or several times."""
    several = len(group.ops) > 1
    for _ in range(calibration.ROUNDED_DRAWS if several or size < calibration.FEW_VALUES else 1):
        drawn = floors.doubted(group, given)
        if drawn is None and several:
            (drawn,) = floors.emulated([group], [given])
        if drawn is None:
            return
        yield drawn


def _among_small(raised: Array, reference: Array, normal: float) -> float:
    """How far *raised* is off where both values are subnormal, as a norm."""
    small = (np.abs(raised) < normal) & (np.abs(reference) < normal)
    return float(np.linalg.norm(np.asarray(raised[small], np.float64) - reference[small]))


def _without_flushed(device: Array, reference: Array, normal: float) -> Array:
    """NaN where the device has zero for a number below *normal*, if all that is little."""
    flushed = (device == 0) & (reference != 0) & (np.abs(reference) < normal)
    if not flushed.any():
        return reference
    lost = float(np.linalg.norm(np.asarray(reference[flushed], np.float64)))
    _, scale = norms(reference, reference)
    return (
        np.where(flushed, np.nan, reference)
        if lost <= calibration.FLUSHED_SHARE * scale
        else reference
    )
