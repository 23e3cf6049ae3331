"""The ordered table of rules: the first that is sure says the cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from divergraph.rootcause.causes.affine import affine, whole_line
from divergraph.rootcause.causes.buffers import read_after, read_before
from divergraph.rootcause.causes.copies import missing_op, stale_tensor, unrelated_values
from divergraph.rootcause.causes.evidence import Cause, FaultEvidence, SampledTensors
from divergraph.rootcause.causes.extremes import quantised_grid, rounding, saturation
from divergraph.rootcause.causes.functions import free_curve, known_function
from divergraph.rootcause.causes.inside import as_well, inside, inside_amount
from divergraph.rootcause.causes.local_places import few_values, wrong_part
from divergraph.rootcause.causes.nonfinite import nonfinite
from divergraph.rootcause.causes.operands import wrong_operand
from divergraph.rootcause.causes.operations import wrong_operation
from divergraph.rootcause.causes.orders import moved_slices, reordered, shuffled
from divergraph.rootcause.causes.settings import wrong_setting
from divergraph.rootcause.causes.unclassified import random_op, unclassified
from divergraph.rootcause.causes.weights import nearly_rounded_weights, wrong_weights
from divergraph.rootcause.causes.wrapping import wrapped_around
from divergraph.rootcause.causes.zeros import (
    all_zero,
    constant_output,
    flush_to_zero,
    scattered_zeros,
    tail_not_written,
    zero_slices,
)
from graphstore.model import Finding, FindingKind

Rule: TypeAlias = Callable[[SampledTensors], "Cause | None"]


def left_out(view: SampledTensors) -> Cause | None:
    """The op did nothing; of several, one told otherwise may do nothing, too, and both are said."""
    cause = missing_op(view)
    several = cause is not None and len(view.case.ops) > 1
    other = wrong_setting(view, numbers=False) if several else None
    return cause if cause is None or other is None else as_well(cause, other)


_TRIED: tuple[Rule, ...] = (
    wrong_setting,
    wrong_operation,
    wrong_weights,
    wrong_operand,
    read_after,
)


def told_otherwise(view: SampledTensors) -> Cause | None:
    """What comes out if an op of the group has another attribute, operand or operation.

    Of several ops between two dumps different mistakes may give the same: then two are said.
    """
    tried = (rule(view) for rule in _TRIED)
    found = (each for each in tried if each is not None)
    cause = next(found, None)
    other = next(found, None) if cause is not None and len(view.case.ops) > 1 else None
    return cause if cause is None or other is None else as_well(cause, other)


RULES: tuple[Rule, ...] = (
    nonfinite,
    random_op,
    all_zero,
    read_before,
    left_out,
    tail_not_written,
    zero_slices,
    flush_to_zero,
    inside,
    known_function,
    stale_tensor,
    wrapped_around,
    saturation,
    told_otherwise,
    constant_output,
    reordered,
    moved_slices,
    whole_line,
    inside_amount,
    affine,
    nearly_rounded_weights,
    few_values,
    quantised_grid,
    lambda view: wrong_part(view, OF_A_PART),
    scattered_zeros,
    shuffled,
    unrelated_values,
    free_curve,
    rounding,
)
"""What is exact comes before what fits a model, what has few parameters before what has many."""

OF_A_PART: tuple[Rule, ...] = (
    all_zero,
    constant_output,
    flush_to_zero,
    saturation,
    reordered,
    moved_slices,
    whole_line,
    affine,
    quantised_grid,
    scattered_zeros,
    shuffled,
    unrelated_values,
)
"""Those that need nothing but the values, for outputs of which only a part is wrong."""

_OF_ONE_OP: Mapping[str, float] = {
    **dict.fromkeys(("channel_gain", "gain_and_offset", "wrong_activation"), 0.65),
    **dict.fromkeys(("unrelated_values", "wrong_channels", "wrong_border", "dead_channels"), 0.7),
    **dict.fromkeys(("wrong_region", "few_values", "scattered_zeros", "sum_cut_short"), 0.7),
    **dict.fromkeys(("gain", "global_offset", "channel_offset", "quantised_grid"), 0.75),
    **dict.fromkeys(("wrapped_around", "repeated_slices", "wrong_operand"), 0.75),
    **dict.fromkeys(("saturation", "flush_to_zero", "reordered", "lost_bias", "missing_op"), 0.79),
}
"""What an error before other ops may look like behind them, and how sure it can be there."""


def explain(case: FaultEvidence) -> Finding | None:
    """Why the op's output is not what its own inputs should give.

    Decided on the device's values and the reference on the device's inputs, never on
    golden values. None where there is nothing to explain: no error, other shapes, or values
    that are no numbers. Otherwise the label is ``unclassified`` if no rule is sure.
    """
    if case.device.shape != case.reference.shape or case.device.size == 0:
        return None
    if case.device.dtype.kind not in "fiub" or case.reference.dtype.kind not in "fiub":
        return None
    with np.errstate(all="ignore"):  # values may be anything, infinities among them
        view = SampledTensors(case)
        cause = nonfinite(view)
        if cause is None and view.error == 0.0:
            return None
        others = (rule(view) for rule in RULES[1:])
        cause = cause or next((each for each in others if each is not None), unclassified(view))
        return _finding(case, view, cause)


def _finding(case: FaultEvidence, view: SampledTensors, cause: Cause) -> Finding:
    evidence = {**cause.evidence, "floor": case.floor}
    confidence = cause.confidence
    exact = "function" in evidence or "explanations" in evidence
    if len(case.ops) > 1 and not exact:
        confidence = min(confidence, _OF_ONE_OP.get(cause.label, 1.0))
    if view.sampled:
        evidence["sampled_elements"] = int(view.d.size)
    if 0.0 < view.error < 10.0 * view.noise:
        confidence *= 0.9
    return Finding(
        kind=FindingKind.CAUSE,
        label=cause.label,
        sentence=cause.sentence,
        op=case.op,
        port=case.port,
        confidence=round(confidence, 3),
        evidence={key: _plain(value) for key, value in evidence.items()},
    )


def _plain(value: object) -> object:
    """A JSON value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
