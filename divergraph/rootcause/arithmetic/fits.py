"""How well the errors of an op follow from an operand format: it is imitated, and what is left of
the errors says whether the device reads its operands so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import FULL, OperandFormat
from divergraph.rootcause.arithmetic.families import Exactness, Family, ReadOperands
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.quantised_ops import are_exact
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import relative, same_shape


@dataclass(frozen=True, slots=True)
class Fit:
    """How the errors of one op follow from a format: the ``rest`` |d - f| / |d - r| that is left,
    and the ``projection`` of the errors on those of the format, which is 1 if they hold them and 0
    if not, whatever a fault adds to them. Infinite and NaN where that cannot be told."""

    rest: float
    projection: float


@dataclass(frozen=True)
class FormatFits:
    """Fits of formats to ops; *floors* gives the emulation of a device that reads so."""

    floors: Callable[[ReadOperands], Emulation]

    def with_format(self, kind: OperandFormat) -> Emulation:
        """The emulation in which all products read their operands in this format."""
        return self.floors(ReadOperands(dict.fromkeys(Family, kind)))

    def imitation(self, kind: OperandFormat = FULL) -> Emulation:
        """The emulation with this format in which nothing is random."""
        floors = self.with_format(kind)
        return floors if floors.precision.rounds else replace(floors, plain=True)

    def fit(self, sample: GroupSample, kind: OperandFormat) -> Fit:
        """How the errors of a group follow from reading its operands in this format."""
        (imitated,) = self.imitation(kind).emulated([sample.group], [sample.given])
        device, reference = same_shape(sample.device, sample.reference.shape), sample.reference
        if imitated is None or device is None or imitated.shape != device.shape:
            return Fit(math.inf, math.nan)
        right = np.asarray(reference, np.float64)
        with np.errstate(all="ignore"):
            error, own = device - right, imitated - right
            there = np.isfinite(error) & np.isfinite(own)
            projection = float(np.sum((error * own)[there]) / np.sum(np.square(own[there])))
        distance = relative(device, reference)
        rest = relative(device, imitated) / distance if distance > 0.0 else math.inf
        return Fit(rest if math.isfinite(projection) else math.inf, projection)

    def exactness(self, samples: Iterable[GroupSample], kind: OperandFormat) -> Exactness:
        """How well the ops that show this format are computed in it here."""
        rounded = self.with_format(kind)
        plain, precision = replace(rounded, plain=True), rounded.precision
        ratios, same = [], []
        for sample in samples:
            group, shape = sample.group, sample.reference.shape
            exact, noisy = (
                emulation.emulated([group], [sample.given])[0] for emulation in (plain, rounded)
            )
            device = same_shape(sample.device, shape)
            if exact is None or device is None or exact.shape != shape:
                continue
            if self.fit(sample, kind).rest <= calibration.OPERANDS_REST:
                floor = floor_of(exact, noisy, precision, len(group.ops))
                ratios.append(relative(device, exact) / floor)
                same.append(float(np.mean(device == noisy)))
        if not are_exact(ratios):
            return Exactness.NO
        alike = statistics.median(same) >= calibration.DYNAMIC_ALIKE
        return Exactness.TO_THE_BIT if alike else Exactness.BUT_FOR_ROUNDING
