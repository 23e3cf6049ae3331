"""What is expected of a group, and how far healthy arithmetic may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from divergraph.execute.contract import Array, Executor
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.splits import same_shape
from divergraph.rootcause.tolerances.gains import (
    ways_inside,
    with_gain_floor,
    with_inner_gain_floor,
)
from divergraph.rootcause.tolerances.local_errors import Noise, local_suspicion, with_local_floor
from divergraph.rootcause.tolerances.masks import Mask, past_the_end, standing_for_infinity, without
from divergraph.rootcause.tolerances.noise_floor import (
    Floors,
    constant_floor,
    floor_of,
)
from divergraph.rootcause.tolerances.nonfinite_origins import explained_by
from divergraph.rootcause.tolerances.refinement import ToleranceEstimate, look_again
from divergraph.rootcause.values import is_numeric, relative
from divergraph.values.run_values import RunValues


@dataclass(frozen=True)
class Expecting:
    """Tells of groups of a run. ``hidden_bodies``: the device may quantise inside of bodies."""

    executor: Executor
    golden: OpGraph
    values: RunValues
    options: RootCauseOptions
    quantised: QuantisedOps
    hidden_bodies: bool

    def of(
        self,
        group: Group,
        given: Mapping[str, Array],
        reference: Array,
        imitated: Array | None,
        floors: Floors,
    ) -> ToleranceEstimate:
        """What is expected of a group that was fed *given* and made *reference* of it here,
        *imitated* in the device's arithmetic."""
        masked = self._masked(group, given, reference, floors)
        reference = without(masked, reference)
        if imitated is not None and imitated.shape == reference.shape:
            imitated = without(masked, imitated)
        floor = emulated = floor_of(reference, imitated, floors.precision, len(group.ops))
        if not group.feeds:
            floor = max(floor, constant_floor(reference, floors.precision))
        if floors.quantisers.by_tensor and self._hides_bodies(group, imitated):
            floor = max(floor, calibration.HIDDEN_BODIES)
        if group.integers:
            floor = max(floor, calibration.INTEGER_KERNEL * math.sqrt(len(group.ops)))
        found = () if imitated is None or imitated.shape != reference.shape else (imitated,)
        explained = self._explained(group, reference, imitated)
        told = ToleranceEstimate(explained, floor, masked=masked, imitations=found)
        return self._looked(group, told, given, floors, unseen=floor if floor > emulated else 0.0)

    def _masked(
        self, group: Group, given: Mapping[str, Array], reference: Array, floors: Floors
    ) -> Mask | None:
        """Where the reference holds numbers that stand for infinity."""
        largest, huge = floors.precision.largest, floors.huge(group)
        device = None if largest is None else self.values.device(group.output)
        if device is None or largest is None:
            return None
        found = standing_for_infinity(reference, device, huge, largest)
        scaled = past_the_end(reference, device, given.values(), huge, largest)
        if found is None or scaled is None:
            return found or scaled
        return Mask(found.held | scaled.held, found.missed & ~scaled.held, largest)

    def _looked(
        self,
        group: Group,
        told: ToleranceEstimate,
        given: Mapping[str, Array],
        floors: Floors,
        unseen: float,
    ) -> ToleranceEstimate:
        """*told*, with what else may explain an error that would be suspect; and with lower
        floors for a gain, and for errors in a part. *unseen* is the floor of what is not imitated.
        """
        device = self.values.device(group.output)
        if device is None or not is_numeric(device) or not is_numeric(told.reference):
            return told
        fitting = same_shape(device, told.reference.shape)
        if fitting is None:
            return told
        fitting = without(told.masked, fitting)
        quantised = bool(floors.quantisers.by_tensor)
        alike = quantised or group.integers
        step = None if unseen else floors.step(group)
        noise = Noise(told.imitations, floors.precision, alike, unseen, step)
        suspicion = max(
            relative(fitting, told.reference) / told.floor,
            local_suspicion(told.reference, fitting, noise),
        )
        if suspicion <= self.options.suspect:
            told = replace(told, imitations=())
        else:
            told = look_again(floors, group, given, fitting, told)
            noise = replace(noise, imitations=told.imitations)
            if relative(fitting, told.reference) <= self.options.guilty * told.floor:
                told = with_local_floor(told, fitting, noise)
        if group.integers or quantised:
            imitated = noise.imitations[0] if noise.imitations and not unseen else None
            return self.quantised.with_expected(told, group, given, fitting, imitated)
        return self._with_gains(told, group, given, fitting, noise)

    def _with_gains(
        self,
        told: ToleranceEstimate,
        group: Group,
        given: Mapping[str, Array],
        device: Array,
        noise: Noise,
    ) -> ToleranceEstimate:
        """*told* with the floor of a gain, if the error of *device* is one of the output or, where
        it is large but not suspect, of a value inside the group."""
        imitations, precision = noise.imitations, noise.precision
        many = len(group.ops)
        found = with_gain_floor(told, device, imitations, precision, many)
        introduced = relative(device, told.reference)
        if many < 2 or not precision.rounds:
            return found
        if (
            not calibration.GAIN_ASKED * self.options.suspect
            < introduced / found.floor
            <= self.options.suspect
        ):
            return found
        ways = ways_inside(self.executor, self.golden, group, given, self.options.memory // 2)
        inner = with_inner_gain_floor(told, device, imitations, precision, ways)
        return min((found, inner), key=lambda each: each.floor)

    def _hides_bodies(self, group: Group, imitated: Array | None) -> bool:
        """Whether a group has ops of which is not known what they quantise."""
        if imitated is None:
            return True
        return self.hidden_bodies and any(self.golden.ops[op_id].owns for op_id in group.ops)

    def _explained(self, group: Group, reference: Array, imitated: Array | None) -> Array:
        device = self.values.device(group.output)
        if device is None or device.size != reference.size:
            return reference
        return explained_by(imitated, reference, device)

    def passed_on(self, group: Group, reference: Array, floors: Floors) -> ToleranceEstimate:
        """What is expected of a group that only hands on *reference*."""
        imitated = floors.passed_on(group, reference)
        told = ToleranceEstimate(reference, floor_of(reference, imitated, floors.precision, 1))
        given = {self.golden.name(group.golden): reference}
        device = self.values.device(group.output)
        fitting = None if device is None else same_shape(device, reference.shape)
        if fitting is None or not is_numeric(fitting) or not is_numeric(reference):
            return told
        return self.quantised.with_expected(told, group, given, fitting, imitated)
