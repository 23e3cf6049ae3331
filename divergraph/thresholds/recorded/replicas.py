"""Tensors that all ranks have alike, such as the reduced gradients of shared parameters."""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.thresholds.recorded.call_errors import HIDDEN
from divergraph.thresholds.recorded.call_pairs import CallPairs
from graphstore.model import Comparison, Op
from graphstore.model.figures import Figures, SideFigures
from importers.msprobe.job_names import RANK, split_rank


def replicas_text(pairs: CallPairs, op: Op, item: Comparison) -> str:
    """That an input of *op* has other values on each rank where golden's is one tensor; "" where
    it has not, or that cannot be told. No rounding makes replicas differ, and no choice before."""
    others = list(_on_other_ranks(pairs, op, item))
    if item.figures is None or not others:
        return ""
    alike = [other for other in others if other.golden == item.figures.golden]
    if all(same_spread(item.figures.device, other.device) for other in alike):
        return ""
    return (
        f"its input {item.port} has other values on each rank, where golden's is one tensor: a sum "
        "over ranks (all_reduce) is missing, or is not of all of them"
    )


def _on_other_ranks(pairs: CallPairs, op: Op, item: Comparison) -> Iterator[Figures]:
    """The figures of the same input of the same call on other ranks."""
    for other in pairs.on_ranks.get(split_rank(op.name)[1], ()) if RANK in op.attrs else ():
        if other != op.id:
            for same in pairs.inputs.get(other, ()):
                if same.port == item.port and same.figures is not None:
                    yield same.figures


def same_spread(one: SideFigures, other: SideFigures) -> bool:
    """Whether two tensors have the same range and deviation but for rounding."""
    size = max(abs(one.low), abs(one.high))
    pairs = (one.low, other.low), (one.high, other.high), (one.std, other.std)
    return not any(abs(own - its) > HIDDEN * size for own, its in pairs)  # NaN tells nothing
