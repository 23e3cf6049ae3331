"""The op did nothing, or something else. In a group of several ops both may explain the output."""

from __future__ import annotations

from divergraph.rootcause.causes.buffers import read_after
from divergraph.rootcause.causes.contract import CauseRule, CauseStage, Explain
from divergraph.rootcause.causes.copies import missing_op
from divergraph.rootcause.causes.evidence import Cause, SampledTensors
from divergraph.rootcause.causes.limits import LIKELY, SURE
from divergraph.rootcause.causes.reruns.operands import wrong_operand
from divergraph.rootcause.causes.reruns.operations import wrong_operation
from divergraph.rootcause.causes.reruns.settings import wrong_setting
from divergraph.rootcause.causes.weights import wrong_weights
from divergraph.rootcause.causes.words import as_well


def left_out(view: SampledTensors) -> Cause | None:
    """The op did nothing. In a group, an op with another setting may look the same: then both
    explanations are given."""
    cause = missing_op(view)
    several = cause is not None and len(view.case.ops) > 1
    other = wrong_setting(view, numbers=False) if several else None
    return cause if cause is None or other is None else as_well(cause, other)


_TRIED: tuple[Explain, ...] = (
    wrong_setting,
    wrong_operation,
    wrong_weights,
    wrong_operand,
    read_after,
)


def told_otherwise(view: SampledTensors) -> Cause | None:
    """An op of the group was run with another attribute, operand or operation.

    In a group different mistakes may give the same output: then two explanations are given.
    """
    tried = (rule(view) for rule in _TRIED)
    causes = (cause for cause in tried if cause is not None)
    cause = next(causes, None)
    other = next(causes, None) if cause is not None and len(view.case.ops) > 1 else None
    return cause if cause is None or other is None else as_well(cause, other)


CAUSES = (
    CauseRule(left_out, CauseStage.MISSING, 30, {"missing_op": LIKELY}),
    CauseRule(
        told_otherwise,
        CauseStage.RERUN,
        10,
        {
            **dict.fromkeys(("wrong_setting", "wrong_axis", "wrong_pads", "wrong_epsilon"), SURE),
            **dict.fromkeys(("wrong_operation", "wrong_weights", "applied_twice"), SURE),
            **dict.fromkeys(("wrong_operand", "sum_cut_short"), LIKELY),
            "overwritten_input": SURE,
        },
    ),
)
