"""Where NaN and infinities vanish again, so that the end of the model looks healthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphstore.model import Comparison, Finding, Op
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.reach import reached


def nonfinite_ops(comparisons: Iterable[Comparison]) -> dict[str, bool]:
    """Of each measured op whether the device has NaN or infinities in one of its outputs."""
    found: dict[str, bool] = {}
    for item in comparisons:
        if item.metrics is not None:
            broken = item.metrics.device_nonfinite > 0
            found[item.op] = found.get(item.op, False) or broken
    return found


def where_hidden(arrays: GraphArrays, op: str, nonfinite: Mapping[str, bool]) -> tuple[str, ...]:
    """The ops below *op* at which NaN and infinities of it vanish, in topo order.

    *nonfinite* says of measured ops (by id) whether an output holds any; unmeasured ones pass
    on what they get. Empty if they reach an end of the graph, or if nothing is known.
    """
    start = arrays.number.get(op)
    if start is None or not nonfinite.get(op, False):
        return ()
    broken = [nonfinite.get(each, True) for each in arrays.ids]
    found = reached([start], lambda each: arrays.successors(each).tolist() if broken[each] else ())
    return tuple(arrays.ids[number] for number in sorted(found) if not broken[number])


def hidden(finding: Finding, ops: Sequence[Op]) -> Finding:
    """*finding* with a sentence that also tells where the values that are not finite vanish."""
    if not ops:
        return finding
    more = f" and {len(ops) - 2} more" if len(ops) > 2 else ""
    listed = (", " if more else " and ").join(f"{op.id} ({op.type})" for op in ops[:2])
    return replace(
        finding,
        sentence=f"{finding.sentence}; hidden by {listed}{more}, whose output is finite again",
        evidence={**finding.evidence, "hidden_by": [op.id for op in ops[:16]]},
    )
