"""Ops that hide NaN and infinities, so that the outputs of the model look healthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphstore.model import Comparison, Finding, Op
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.reach import reached


def nonfinite_ops(comparisons: Iterable[Comparison]) -> dict[str, bool]:
    """For each measured op, by id, whether the device has NaN or infinities in an output."""
    broken_ops: dict[str, bool] = {}
    for item in comparisons:
        if item.metrics is not None:
            broken = item.metrics.device_nonfinite > 0
            broken_ops[item.op] = broken_ops.get(item.op, False) or broken
    return broken_ops


def where_hidden(arrays: GraphArrays, op: str, nonfinite: Mapping[str, bool]) -> tuple[str, ...]:
    """The first ops downstream of *op* whose outputs are finite again, in topological order.

    *nonfinite* says for each measured op, by id, whether an output holds NaN or infinities;
    unmeasured ops are taken to pass them on. Empty where no such op is known.
    """
    start = arrays.number.get(op)
    if start is None or not nonfinite.get(op, False):
        return ()
    broken = [nonfinite.get(op_id, True) for op_id in arrays.ids]
    ops_reached = reached(
        [start], lambda number: arrays.successors(number).tolist() if broken[number] else ()
    )
    return tuple(arrays.ids[number] for number in sorted(ops_reached) if not broken[number])


def hidden(finding: Finding, ops: Sequence[Op]) -> Finding:
    """*finding*, whose sentence also names the *ops* that hide NaN and infinities."""
    if not ops:
        return finding
    more = f" and {len(ops) - 2} more" if len(ops) > 2 else ""
    listed = (", " if more else " and ").join(f"{op.id} ({op.type})" for op in ops[:2])
    return replace(
        finding,
        sentence=f"{finding.sentence}; hidden by {listed}{more}, whose output is finite again",
        evidence={**finding.evidence, "hidden_by": [op.id for op in ops[:16]]},
    )
