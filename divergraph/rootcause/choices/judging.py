"""Names are not numbers: indices, classes and booleans are judged element by element.

A class of 7 in place of 281 is no larger an error than 280. So no norm is asked how far off such an
output is, but for each element that differs whether what the device chose is as good as the right
choice, within the noise of what was chosen by. If it is, that is a tie, and healthy. All others are
wrong, however few.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.choices.choosing import chooser_of, margin_of
from divergraph.rootcause.tolerances.contract import OpContext, ToleranceEstimate
from divergraph.rootcause.values import relative

_NUMBERS = ("Quant", "Integer", "QLinear", "Requant")
"""In names of op types whose integers are numbers, in steps of a scale."""
TIES = "ties"
REASON = "of choices that are equal within the noise of what is chosen by, any is right"


@dataclass(frozen=True, slots=True)
class Names:
    """What came of the names of an output. ``estimate`` has the device's choice as the right one
    wherever it is as good, ``ties`` times; ``wrong`` ones are left."""

    estimate: ToleranceEstimate
    ties: int
    wrong: int


def names_of(context: OpContext, estimate: ToleranceEstimate) -> Names | None:
    """The judgement of an output that holds names; None for numbers, or if nothing differs.

    Its floor makes the suspicion the largest gap over noise times the limit of guilt, so that any
    choice beyond the noise is guilty.
    """
    reference, device = estimate.reference, estimate.device
    if not _holds_names(context, estimate):
        return None
    differs = np.asarray(device != reference)
    if not differs.any():
        return None
    ratios = _ratios(context, reference, device, differs)
    tied = differs & ~(ratios >= 1.0)
    right = np.where(tied, device, reference).astype(reference.dtype)
    wrong = int(np.count_nonzero(differs)) - int(np.count_nonzero(tied))
    names_left = replace(estimate, reference=right, imitations=())
    if wrong:
        largest_ratio = float(np.max(ratios[differs & ~tied])) * context.options.guilty
        largest_ratio = min(largest_ratio, max(calibration.MOST_SUSPICION, context.options.guilty))
        introduced = relative(device, right)
        floor = introduced / largest_ratio if math.isfinite(introduced) else 1.0
        names_left = replace(names_left, floor=floor, bound=largest_ratio)
    return Names(names_left, int(np.count_nonzero(tied)), wrong)


def are_names(value: Array, types: Iterable[str]) -> bool:
    """Whether *value*, made by ops of these *types*, holds booleans, or integers that are no
    numbers on a scale."""
    return value.dtype.kind in "biu" and not any(
        x in op_type for op_type in types for x in _NUMBERS
    )


def _holds_names(context: OpContext, estimate: ToleranceEstimate) -> bool:
    """Whether both sides hold names. What is handed on may have been numbers to its reader."""
    if estimate.device.dtype.kind not in "biuf" or context.group.integers:
        return False
    if not context.group.ops and estimate.device.dtype.kind == "f":
        return False
    types = (context.golden.ops[op_id].type for op_id in context.group.ops)
    return are_names(estimate.reference, types)


def _ratios(context: OpContext, right: Array, dumped: Array, differs: Array) -> Array:
    """By element, where the two differ, how far the given choice is from the right one in units of
    noise; infinite where nothing but whole numbers led to it, and they are no tie."""
    chooser = chooser_of(context) if context.group.ops else None
    margin = None if chooser is None else margin_of(context, chooser, right, dumped)
    if margin is not None:
        with np.errstate(all="ignore"):
            ratios = np.where(margin.gap == 0.0, 0.0, margin.gap / margin.noise)
        return np.where(differs, ratios, 0.0)
    if any(value.dtype.kind == "f" for value in context.given.values()) and context.group.ops:
        return _by_draws(context, right, dumped, differs)
    return np.where(differs, np.inf, 0.0)


def _by_draws(context: OpContext, right: Array, dumped: Array, differs: Array) -> Array:
    """As above where no margin tells: a choice that changes as chance is drawn anew is a tie. One
    that does not may still be nearer to a tie than so few draws show, so a few are only suspect."""
    changed = np.zeros(right.shape, np.bool_)
    arithmetic, count = context.arithmetic, calibration.ROUNDED_DRAWS
    for drawn in arithmetic.draws(context.group, context.given, count):
        if drawn.size == right.size:
            other = drawn.reshape(right.shape)
            changed |= (other != right) | (other == dumped)
    unchanged = differs & ~changed
    few = np.count_nonzero(unchanged) <= calibration.PEAK_VALUES
    return np.where(unchanged, 1.0 if few else np.inf, 0.0)
