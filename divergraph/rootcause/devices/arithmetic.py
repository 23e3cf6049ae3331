"""How far a device is from an emulation of its ops, and whether both err alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import whole_formats
from divergraph.rootcause.arithmetic.families import Family, ReadOperands
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import is_numeric, relative, same_shape


def distance(sample: GroupSample, floors: Emulation) -> float:
    """The median distance between the values of the device and what *floors* give without noise:
    a fault in some of them does not move it. Values that are 0 on both sides do not count: behind a
    Relu they may be most, whatever the arithmetic. Infinite where that cannot be told."""
    device = same_shape(sample.device, sample.reference.shape)
    (exact,) = replace(floors, plain=True).emulated([sample.group], [sample.given])
    if device is None or exact is None or exact.shape != device.shape:
        return math.inf
    counting = (device != 0) | (exact != 0)
    if not np.any(counting):
        return 0.0
    with np.errstate(all="ignore"):
        errors = np.abs(np.asarray(device, np.float64) - exact)[counting]
        median_error = float(np.median(errors))
    return math.inf if math.isnan(median_error) else median_error


def distance_of_operands(sample: GroupSample, floors: Emulation) -> float:
    """The least distance of a product whose operands are rounded as matrix engines round float32,
    in which nothing else of *floors* is another."""
    kinds = (ReadOperands(dict.fromkeys(Family, kind)) for kind in whole_formats())
    return min(distance(sample, replace(floors, operands=kind)) for kind in kinds)


def agreement(device: Array, emulated: Array, reference: Array) -> float | None:
    """The cosine between the errors of *device* and of *emulated*, arrays of the reference's
    shape: near 1 where they are the same errors. None where a side has none, or is not finite."""
    right = np.asarray(reference, np.float64)
    with np.errstate(all="ignore"):
        one, other = np.asarray(device) - right, np.asarray(emulated) - right
        sizes = float(np.sum(one**2) * np.sum(other**2))
        if not 0.0 < sizes < math.inf:
            return None
        return float(np.sum(one * other)) / math.sqrt(sizes)


def ratio_of(sample: GroupSample, floors: Emulation) -> float | None:
    """Introduced error over noise floor of one group; None where it cannot be measured."""
    measurement = measured(sample, floors)
    return None if measurement is None else measurement[0]


def measured(sample: GroupSample, floors: Emulation) -> tuple[float, Array, Array | None] | None:
    """Introduced error over noise floor of one group, its device output and, if there is one, its
    emulation, both in the reference's shape; None where it cannot be measured."""
    device = same_shape(sample.device, sample.reference.shape)
    if device is None or not (is_numeric(device) and is_numeric(sample.reference)):
        return None
    try:
        (emulated,) = floors.emulated([sample.group], [sample.given])
    except MemoryError:
        return None  # the other samples of its kind will do
    floor = floor_of(sample.reference, emulated, floors.precision, len(sample.group.ops))
    fits = emulated is not None and emulated.shape == sample.reference.shape
    return relative(device, sample.reference) / floor, device, emulated if fits else None
