"""What to do about a problem, as the device, the cause and the op allow."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.ask.advisor.view import RunView
from divergraph.ask.fusion_passes import NamedPass, passes_of, switch_text
from divergraph.text.words import counted
from graphstore.model import Comparison, DType, Finding, Op

_SHORT = frozenset({DType.FLOAT16, DType.BFLOAT16})
_OF_PRECISION = frozenset(
    (
        *("unclassified", "rounding", "rounded_weights", "quantised_grid", "few_values"),
        *("overflow", "saturation", "flush_to_zero", "sum_cut_short", "nan_origin", "nonfinite"),
    )
)
"""Causes that more precision can undo; a bias that was not added stays so in any."""


def remedy(view: RunView, item: Comparison, causes: list[Finding]) -> str:
    """What to do about the op whose output *item* is, one of *causes* being likely."""
    op = view.ops[item.op]
    passes = passes_of(op.attrs)
    if passes:
        return f"{_standing(view, op)}{_switched_off(passes)}, and compare again"
    if op.is_fused:
        return f"{_standing(view, op)}switch that fusion off and compare again"
    alone = "Run this op alone on golden's inputs"
    if any(each.label == "lost_part" for each in causes):
        if is_short(view, item):
            return "Keep this op, and what takes its result apart again, in float32"
        return "Give the parts scales or outputs of their own, or keep this op in higher precision"
    if is_short(view, item) and all(each.label in _OF_PRECISION for each in causes):
        return f"{alone}, or keep it in float32, and compare again"
    return f"{alone}: `divergraph submodel` cuts it out with its data"


def against_overflow(view: RunView, item: Comparison) -> str:
    """What to do about an overflow in *item*."""
    if is_short(view, item):
        return "Keep this op in float32 (or bfloat16), or scale its inputs down"
    return "Scale its inputs down, or look at what makes them that large"


def is_short(view: RunView, item: Comparison) -> bool:
    """Whether the op computes in 16 bits, so that float32 would be more."""
    arithmetic = view.data.run.analysis.arithmetic
    if item.op in arithmetic.fp32_ops:
        return False
    return item.device_dtype in _SHORT or arithmetic.precision in ("fp16", "bf16")


def _standing(view: RunView, op: Op) -> str:
    known = {link.original for link in view.data.links if link.device == op.id}
    count = len(known) or len(op.original_names or ())
    return f"The op stands for {counted(count, 'original')}: " if count > 1 else ""


def _switched_off(passes: Sequence[NamedPass]) -> str:
    names = ", ".join(dict.fromkeys(each.name for each in passes))
    return f"switch the fusion pass {names} off (fusion switch file: {switch_text(passes)})"
