"""The judgement of one output: floor, tolerances, suspicion, guilt, role; and how it was reckoned.

The steps 5 to 8 of ``core``, for d, r and e that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
    tolerances,
)
from divergraph.rootcause.tolerances.local_errors import local_suspicion, noise_of
from divergraph.rootcause.tolerances.masks import Mask, without
from divergraph.rootcause.tolerances.noise_floor import floor_of, least_floor
from divergraph.rootcause.values import norms, relative
from graphstore.model import Adjustment, Effect, ErrorSplit, Guilt, Reckoning, Role

_KEPT_FROM = 0.5
"""The share of the suspect limit from which on a reckoning is kept: people ask why an op is
guilty, and why one next to the limit is not."""


@dataclass(slots=True)
class Judgement:
    """What an output is held against, and the tolerances that acted so far."""

    told: ToleranceEstimate
    adjustments: list[Adjustment] = field(default_factory=list)

    def reckoning(self, context: OpContext, split: ErrorSplit) -> Reckoning | None:
        """How *split* came about, for outputs guilty, suspect or not far from it."""
        suspicion, told = split.suspicion, self.told
        if suspicion is None or suspicion <= _KEPT_FROM * context.options.suspect:
            return None
        apart, size = norms(told.device, told.reference)
        precision, output = context.arithmetic.precision, context.group.output
        emulated = None if told.emulation is None else relative(told.emulation, told.reference)
        return Reckoning(
            output.op,
            output.port,
            split.reference,
            precision.name,
            apart,
            size,
            emulated,
            least_floor(precision, told.reference.size),
            tuple(self.adjustments),
            split.introduced or 0.0,
            split.floor or 0.0,
            suspicion,
            split.guilt,
        )


def expect(
    context: OpContext, reference: Array, device: Array, emulation: Array | None
) -> Judgement:
    """What a *device* output is held against, once every tolerance was asked.

    All three are of one shape; an *emulation* of another is none.
    """
    fits = emulation is not None and emulation.shape == reference.shape
    imitations = (emulation,) if emulation is not None and fits else ()
    told = ToleranceEstimate(reference, device, imitations=imitations)
    found = Judgement(told)
    # Masks are gone before anything is measured: -3e38 would be the whole norm.
    _ask(found, context, Stage.PLACES)
    found.told = replace(found.told, floor=_emulated_floor(context, found.told))
    emulated = found.told.floor
    _ask(found, context, Stage.KNOWN)
    # What is not emulated has no parts that could be looked at: its noise is of unknown shape.
    unseen = found.told.floor if found.told.floor > emulated else 0.0
    found.told = replace(found.told, unseen=unseen)
    if _worst(context, found.told) > context.options.suspect:
        _ask(found, context, Stage.SUSPICIOUS)
    # A gain of 0.3 % or a step of a quantiser is below the floor, so these are always asked.
    _ask(found, context, Stage.HIDDEN)
    if suspicion_of(found.told)[2] > context.options.guilty:
        _ask(found, context, Stage.LAST)
    return found


def _emulated_floor(context: OpContext, told: ToleranceEstimate) -> float:
    """max(|e - r| / |r|, the least rounding): chance may make e exact, never the device."""
    ops = 1 if context.group.is_passthrough is not None else context.ops
    return floor_of(told.reference, told.emulation, context.arithmetic.precision, ops)


def _worst(context: OpContext, told: ToleranceEstimate) -> float:
    """The suspicion of the whole tensor or, if that is more, of its worst part."""
    if context.group.is_passthrough is not None:
        return 0.0
    whole = relative(told.device, told.reference) / told.floor
    return max(whole, local_suspicion(told.reference, told.device, noise_of(context, told)))


def _ask(found: Judgement, context: OpContext, stage: Stage) -> None:
    """Let the tolerances of a stage act, one on what the one before left."""
    for each in tolerances():
        if each.stage is not stage:
            continue
        if context.group.is_passthrough is not None and not each.handed_on:
            continue  # nothing was computed, so nothing that computing explains
        action = each.apply(context, found.told)
        told = _applied(action, found.told)
        if action is not None and told is not found.told:
            found.adjustments.append(_recorded(each, action, found.told, told))
            found.told = told


def _applied(action: Action, told: ToleranceEstimate) -> ToleranceEstimate:
    """*told* after an action; the very same if it changes nothing."""
    match action:
        case Widen():
            return _widened(action, told)
        case Narrow(floor=floor, absolute=absolute, expected=expected):
            # An exact expectation replaces the reference for causes even of an equal floor.
            floor, absolute = min(floor, told.floor), min(absolute, told.absolute)
            expected = told.expected if expected is None else expected
            return replace(told, floor=floor, absolute=absolute, expected=expected)
        case Exclude(reference=reference, mask=mask):
            found = told if reference is None else replace(told, reference=reference)
            return found if mask is None else _masked(found, mask)
        case None:
            return told


def _widened(action: Widen, told: ToleranceEstimate) -> ToleranceEstimate:
    floor, absolute = max(action.floor, told.floor), max(action.absolute, told.absolute)
    # Of several explanations the largest holds: they are alternatives and do not add up.
    bounded = suspicion_of(told)[2] > action.bound
    if (floor, absolute) == (told.floor, told.absolute) and not bounded and not action.imitations:
        return told
    imitations = (*told.imitations, *action.imitations)
    bound = min(action.bound, told.bound)
    return replace(told, floor=floor, absolute=absolute, bound=bound, imitations=imitations)


def _masked(told: ToleranceEstimate, mask: Mask) -> ToleranceEstimate:
    return replace(
        told,
        reference=without(mask, told.reference),
        device=without(mask, told.device),
        imitations=tuple(without(mask, each) for each in told.imitations),
        masked=mask,
    )


_EFFECTS = {Widen: Effect.WIDEN, Narrow: Effect.NARROW, Exclude: Effect.EXCLUDE}


def _recorded(
    tolerance: Tolerance,
    action: Widen | Narrow | Exclude,
    before: ToleranceEstimate,
    after: ToleranceEstimate,
) -> Adjustment:
    """What is kept of it: floors with absolute ones in them, as they are held against errors."""
    return Adjustment(
        tolerance.name,
        _EFFECTS[type(action)],
        tolerance.reason,
        suspicion_of(before)[1],
        suspicion_of(after)[1],
        {name: float(value) for name, value in action.numbers.items()},
    )


def suspicion_of(told: ToleranceEstimate) -> tuple[float, float, float]:
    """(introduced error, floor, suspicion) of the device's output by what is *told*."""
    apart, size = norms(told.device, told.reference)
    introduced = _ratio(apart, size)
    floor = max(told.floor, told.absolute / size) if size > 0.0 else told.floor
    suspicion = introduced / floor if introduced and floor else 0.0
    if size == 0.0 and told.absolute > 0.0:
        suspicion = apart / told.absolute  # of exactly 0 no error is relative
    return introduced, floor, min(suspicion, told.bound)


def split_of(found: Judgement, golden: Array, context: OpContext, runner: str) -> ErrorSplit:
    """The split of one output's error. *golden* is g in the shape of the reference, masked as
    that; *runner* says what ran the reference."""
    introduced, floor, suspicion = suspicion_of(found.told)
    propagated = _ratio(*_propagated(found.told, golden))
    guilt = context.options.guilt(suspicion)
    amplification = _amplification(propagated, context.inputs_error)
    return ErrorSplit(
        role=_role(guilt, propagated, floor, amplification),
        guilt=guilt,
        introduced=introduced,
        propagated=propagated,
        floor=floor,
        suspicion=suspicion,
        amplification=amplification,
        group=context.group.ops,
        reference=runner,
    )


def _propagated(told: ToleranceEstimate, golden: Array) -> tuple[float, float]:
    """|r - g| and |g|, without the places explained away: NaN in the reference alone."""
    reference = told.reference
    apart, size = norms(reference, golden)
    if math.isinf(apart):
        explained = np.isnan(reference) & np.isfinite(told.device)
        apart, size = norms(np.where(explained, golden, reference), golden)
    return apart, size


def unknown(failure: str, group: tuple[str, ...] = (), runner: str = "") -> ErrorSplit:
    """The split of an output for which no reference could be run."""
    return ErrorSplit(Role.UNKNOWN, group=group, reference=runner, failure=failure)


def _ratio(apart: float, size: float) -> float:
    if apart == 0.0:
        return 0.0
    return apart / size if size > 0.0 and math.isfinite(apart) else math.inf


def _amplification(propagated: float, inputs_error: float | None) -> float | None:
    """None where nothing wrong came in: then nothing can have grown."""
    if inputs_error is None or not math.isfinite(inputs_error) or inputs_error <= 0.0:
        return None
    return propagated / inputs_error


def _role(guilt: Guilt, propagated: float, floor: float, amplification: float | None) -> Role:
    if guilt is not Guilt.NONE:
        return Role.INTRODUCES
    if propagated <= floor:  # what is left of an error is no more than arithmetic makes
        healed = amplification is not None and amplification < 1.0 / calibration.AMPLIFIES
        return Role.ATTENUATES if healed and propagated > 0.0 else Role.CLEAN
    if amplification is None:
        return Role.CARRIES
    if amplification > calibration.AMPLIFIES:
        return Role.AMPLIFIES
    return Role.ATTENUATES if amplification < 1.0 / calibration.AMPLIFIES else Role.CARRIES
