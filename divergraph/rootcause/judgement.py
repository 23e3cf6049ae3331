"""The judgement of one output: floor, tolerances, suspicion, guilt, role; and how it was reckoned.

The steps 5 to 8 of ``core``, for d, r and e that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.choices.judging import REASON, TIES, Names, names_of
from divergraph.rootcause.devices.floors import floor_of, least_floor
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
from divergraph.rootcause.tolerances.exact_ops import TOLERANCE as EXACT
from divergraph.rootcause.tolerances.local_errors import TOLERANCE as PARTS
from divergraph.rootcause.tolerances.local_errors import held_noise, local_suspicion, noise_of
from divergraph.rootcause.tolerances.lone_slices import TOLERANCE as LONE
from divergraph.rootcause.tolerances.masks import Mask, without
from divergraph.rootcause.tolerances.standing_out import TOLERANCE as STANDING_OUT
from divergraph.rootcause.values import norms, relative
from graphstore.model import Adjustment, Effect, ErrorSplit, Guilt, Reckoning, Role

_KEPT_FROM = 0.5
"""The share of the suspect limit from which on a reckoning is kept: people ask why an op is
guilty, and why one next to the limit is not."""


_NOT_NOISE = frozenset(tolerance.name for tolerance in (PARTS, LONE, EXACT, STANDING_OUT))
"""Tolerances whose floors are no noise of the whole tensor."""


@dataclass(slots=True)
class Judgement:
    """What an output is compared with, and the tolerances that have acted so far; ``worst`` is the
    suspicion of its worst part as far as these explain it."""

    estimate: ToleranceEstimate
    adjustments: list[Adjustment] = field(default_factory=list)
    worst: float = 0.0

    @property
    def noise(self) -> float:
        """The relative error of the whole tensor that is noise. The floor is less where it was
        lowered for a part of the tensor, or for what other ops have."""
        before = [
            adjustment.before
            for adjustment in self.adjustments
            if adjustment.tolerance in _NOT_NOISE
        ]
        return before[0] if before else suspicion_of(self.estimate)[1]

    def reckoning(self, context: OpContext, split: ErrorSplit) -> Reckoning | None:
        """The steps that led to *split*; None below half the limit of suspects."""
        suspicion, estimate = split.suspicion, self.estimate
        if suspicion is None or suspicion <= _KEPT_FROM * context.options.suspect:
            return None
        error, size = norms(estimate.device, estimate.reference)
        precision, output = context.arithmetic.precision, context.group.output
        emulated = (
            None if estimate.emulation is None else relative(estimate.emulation, estimate.reference)
        )
        return Reckoning(
            output.op,
            output.port,
            split.reference,
            precision.name,
            error,
            size,
            emulated,
            least_floor(precision, estimate.reference.size),
            tuple(self.adjustments),
            split.introduced or 0.0,
            split.floor or 0.0,
            suspicion,
            split.guilt,
        )


def expect(
    context: OpContext, reference: Array, device: Array, emulation: Array | None
) -> Judgement:
    """The judgement of a *device* output after all tolerances have been asked.

    *reference* (r), *device* (d) and *emulation* (e) have one shape and any numeric dtype; an
    emulation of another shape counts as None.
    """
    fits = emulation is not None and emulation.shape == reference.shape
    imitations = (emulation,) if emulation is not None and fits else ()
    estimate = ToleranceEstimate(reference, device, imitations=imitations)
    judgement = Judgement(estimate)
    # Masks are excluded before anything is measured: one -3e38 would be the whole norm.
    _ask(judgement, context, Stage.PLACES)
    names = names_of(context, judgement.estimate)
    if names is not None:
        return _of_names(judgement, names)
    judgement.estimate = replace(
        judgement.estimate, floor=_emulated_floor(context, judgement.estimate)
    )
    emulated = judgement.estimate.floor
    _ask(judgement, context, Stage.KNOWN)
    # Where the floor is a flat share instead of an emulation, noise by element is not known, so
    # the parts of the tensor cannot be judged by themselves.
    unseen = judgement.estimate.floor if judgement.estimate.floor > emulated else 0.0
    judgement.estimate = replace(judgement.estimate, unseen=unseen)
    _ask(judgement, context, Stage.SUSPICIOUS)
    # A gain of 0.3 % or one step of a quantiser lies below the floor, so these are always asked.
    _ask(judgement, context, Stage.HIDDEN)
    if suspicion_of(judgement.estimate)[2] > context.options.guilty:
        _ask(judgement, context, Stage.LAST)
    return judgement


def _of_names(judgement: Judgement, names: Names) -> Judgement:
    """The judgement of names, of which no tolerance for numbers is asked."""
    if names.ties:
        numbers = {"ties": float(names.ties), "wrong": float(names.wrong)}
        judgement.adjustments.append(Adjustment(TIES, Effect.EXCLUDE, REASON, 0.0, 0.0, numbers))
    judgement.estimate = names.estimate
    judgement.worst = suspicion_of(names.estimate)[2]
    return judgement


def _emulated_floor(context: OpContext, estimate: ToleranceEstimate) -> float:
    """max(|e - r| / |r|, the least rounding): e may be exact by chance, which says nothing of the
    device's rounding, so the floor is never 0. Nor is it less than rounding to the grid of a tensor
    held in integers: kernels in fixed point may be a step beside an emulation that lies on it."""
    ops = 1 if context.group.is_passthrough is not None else context.ops
    precision, reference = context.arithmetic.precision, estimate.reference
    floor = floor_of(reference, estimate.emulation, precision, ops)
    size = norms(reference, reference)[1]
    grid = held_noise(context) * math.sqrt(reference.size)
    return max(floor, grid / size) if grid and size > 0.0 else floor


def _worst(context: OpContext, estimate: ToleranceEstimate) -> float:
    """The suspicion of the whole tensor or of its worst part, whichever is larger."""
    if context.group.is_passthrough is not None:
        return 0.0
    overall = relative(estimate.device, estimate.reference) / estimate.floor
    return max(
        overall, local_suspicion(estimate.reference, estimate.device, noise_of(context, estimate))
    )


def _is_suspicious(judgement: Judgement, context: OpContext) -> bool:
    judgement.worst = _worst(context, judgement.estimate)
    return judgement.worst > context.options.suspect


def _ask(judgement: Judgement, context: OpContext, stage: Stage) -> None:
    """Let the tolerances of a stage act one after the other, each on the result of the last."""
    suspicious = stage is Stage.SUSPICIOUS and _is_suspicious(judgement, context)
    for tolerance in tolerances():
        if tolerance.stage is not stage:
            continue
        if context.group.is_passthrough is not None and not tolerance.handed_on:
            continue  # nothing was computed, so most tolerances have nothing to explain
        # Explanations cost a run of the group or more: they are sought as long as one is needed.
        if stage is Stage.SUSPICIOUS and not suspicious:
            break
        action = tolerance.apply(context, judgement.estimate)
        estimate = _applied(action, judgement.estimate)
        if action is not None and estimate is not judgement.estimate:
            judgement.adjustments.append(_recorded(tolerance, action, judgement.estimate, estimate))
            judgement.estimate = estimate
            suspicious = stage is Stage.SUSPICIOUS and _is_suspicious(judgement, context)


def _applied(action: Action, estimate: ToleranceEstimate) -> ToleranceEstimate:
    """*estimate* after an action; the same object if nothing changes, which is how the caller
    knows that the tolerance did not act."""
    match action:
        case Widen():
            return _widened(action, estimate)
        case Narrow(floor=floor, absolute=absolute, expected=expected):
            # An exact expectation replaces the reference for causes even if the floor stays.
            floor, absolute = min(floor, estimate.floor), min(absolute, estimate.absolute)
            expected = estimate.expected if expected is None else expected
            return replace(estimate, floor=floor, absolute=absolute, expected=expected)
        case Exclude(reference=reference, mask=mask):
            applied = estimate if reference is None else replace(estimate, reference=reference)
            return applied if mask is None else _masked(applied, mask)
        case None:
            return estimate


def _widened(action: Widen, estimate: ToleranceEstimate) -> ToleranceEstimate:
    floor, absolute = max(action.floor, estimate.floor), max(action.absolute, estimate.absolute)
    # Explanations are alternatives: the widest counts, and they are never added up.
    bounded = suspicion_of(estimate)[2] > action.bound
    if (
        (floor, absolute) == (estimate.floor, estimate.absolute)
        and not bounded
        and not action.imitations
    ):
        return estimate
    imitations = (*estimate.imitations, *action.imitations)
    bound = min(action.bound, estimate.bound)
    return replace(estimate, floor=floor, absolute=absolute, bound=bound, imitations=imitations)


def _masked(estimate: ToleranceEstimate, mask: Mask) -> ToleranceEstimate:
    return replace(
        estimate,
        reference=without(mask, estimate.reference),
        device=without(mask, estimate.device),
        imitations=tuple(without(mask, imitation) for imitation in estimate.imitations),
        masked=mask,
    )


_EFFECTS = {Widen: Effect.WIDEN, Narrow: Effect.NARROW, Exclude: Effect.EXCLUDE}


def _recorded(
    tolerance: Tolerance,
    action: Widen | Narrow | Exclude,
    before: ToleranceEstimate,
    after: ToleranceEstimate,
) -> Adjustment:
    """The record of one step. Its floors include the absolute ones, so that error over floor is
    the suspicion that was judged."""
    return Adjustment(
        tolerance.name,
        _EFFECTS[type(action)],
        tolerance.reason,
        suspicion_of(before)[1],
        suspicion_of(after)[1],
        {name: float(value) for name, value in action.numbers.items()},
    )


def suspicion_of(estimate: ToleranceEstimate) -> tuple[float, float, float]:
    """(introduced error, floor, suspicion): |d - r| / |r|, the relative floor that holds, and their
    ratio up to the bound. A suspicion of 0 means no error, or an error without a floor."""
    error, size = norms(estimate.device, estimate.reference)
    introduced = _ratio(error, size)
    floor = max(estimate.floor, estimate.absolute / size) if size > 0.0 else estimate.floor
    suspicion = introduced / floor if introduced and floor else 0.0
    if size == 0.0 and estimate.absolute > 0.0:
        suspicion = error / estimate.absolute  # r is exactly 0, so only absolute errors exist
    return introduced, floor, min(suspicion, estimate.bound)


def split_of(judgement: Judgement, golden: Array, context: OpContext, runner: str) -> ErrorSplit:
    """The split of one output's error into introduced and propagated, with guilt and role.

    *golden* is g in the shape of the reference and masked like it; *runner* names the executor of
    the reference. All errors are relative Euclidean norms, infinite where the device is not finite.
    """
    introduced, floor, suspicion = suspicion_of(judgement.estimate)
    propagated = _ratio(*_propagated(judgement.estimate, golden))
    guilt = context.options.guilt(suspicion)
    amplification = _amplification(propagated, context.inputs_error)
    return ErrorSplit(
        role=_role(guilt, introduced, propagated, floor, amplification),
        guilt=guilt,
        introduced=introduced,
        propagated=propagated,
        floor=floor,
        suspicion=suspicion,
        amplification=amplification,
        group=context.group.ops,
        reference=runner,
    )


def _propagated(estimate: ToleranceEstimate, golden: Array) -> tuple[float, float]:
    """|r - g| and |g|, without the places tolerances excluded: NaN in the reference only."""
    reference = estimate.reference
    error, size = norms(reference, golden)
    if math.isinf(error):
        explained = np.isnan(reference) & np.isfinite(estimate.device)
        error, size = norms(np.where(explained, golden, reference), golden)
    return error, size


def unknown(failure: str, group: tuple[str, ...] = (), runner: str = "") -> ErrorSplit:
    """The split of an output for which no reference could be run, for the reason *failure*."""
    return ErrorSplit(Role.UNKNOWN, group=group, reference=runner, failure=failure)


def _ratio(error: float, size: float) -> float:
    if error == 0.0:
        return 0.0
    return error / size if size > 0.0 and math.isfinite(error) else math.inf


def _amplification(propagated: float, inputs_error: float | None) -> float | None:
    """Propagated error over the inputs' error; None where nothing wrong came in to grow."""
    if inputs_error is None or not math.isfinite(inputs_error) or inputs_error <= 0.0:
        return None
    return propagated / inputs_error


def _role(
    guilt: Guilt,
    introduced: float,
    propagated: float,
    floor: float,
    amplification: float | None,
) -> Role:
    if guilt is not Guilt.NONE:
        return Role.INTRODUCES
    # Guilt decides first: an op that makes an error of its own introduces, whatever it passes on.
    if propagated <= floor:  # no more error than the op's own arithmetic makes
        healed = amplification is not None and amplification < 1.0 / calibration.AMPLIFIES
        return Role.ATTENUATES if healed and propagated > 0.0 else Role.CLEAN
    if introduced > propagated:  # it hands on less than it makes
        return Role.INTRODUCES
    if amplification is None:
        return Role.CARRIES
    if amplification > calibration.AMPLIFIES:
        return Role.AMPLIFIES
    return Role.ATTENUATES if amplification < 1.0 / calibration.AMPLIFIES else Role.CARRIES
