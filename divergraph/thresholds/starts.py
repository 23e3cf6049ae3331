"""Where errors over a limit start, and which of them are no op's fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.thresholds.bodies import owners_around
from divergraph.thresholds.choices import chose_otherwise
from divergraph.thresholds.verdicts import worst
from graphstore.model import Comparison, ModelGraph, Op
from graphstore.traverse.algorithms import ancestors, descendants, first_diverging
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.measured_ops import measured_ops, over_ops

_GROWN = 3.0
_GROWN_AT_LEAST = 0.15
_BUILT_IN = "default"


@dataclass(frozen=True, slots=True)
class Starts:
    """``origins`` in execution order. ``choices`` are ops that would be, had they not chosen
    between near equals, with why that may be; ``grown`` are origins after one of those, where
    the error becomes larger than a few other choices explain."""

    origins: tuple[str, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    grown: frozenset[str] = frozenset()

    def notes(self, ops: Mapping[str, Op]) -> Iterator[str]:
        """The choices as sentences."""
        for op, why in self.choices.items():
            yield f"{op} ({ops[op].type}): {why}"


def starts_by_limits(
    arrays: GraphArrays,
    graph: ModelGraph,
    comparisons: Sequence[Comparison],
    outputs: Mapping[str, Sequence[Comparison]],
) -> Starts:
    """The ops that are over a limit while none of their nearest measured ancestors is."""
    measured, over = measured_ops(arrays, comparisons), over_ops(arrays, comparisons)
    explained = owners_around(graph, {item.op for item in comparisons if item.over})
    first = [arrays.ids[number] for number in first_diverging(arrays, measured, over)]
    ops = graph.op_index()
    origins: set[str] = set()
    choices: dict[str, str] = {}
    for op in first:
        if op in explained:
            continue
        why = _why(ops[op].type, outputs.get(op, ()))
        if why:
            choices[op] = why
        else:
            origins.add(op)
    grown = {found for op in choices if (found := _grown(arrays, ops, outputs, op)) is not None}
    kept: set[str] = set()
    for op in sorted(grown - origins, key=arrays.number.__getitem__):
        if not _follows(arrays, op, origins | kept):
            kept.add(op)
    in_order = sorted(origins | kept, key=arrays.number.__getitem__)
    return Starts(tuple(in_order), choices, frozenset(kept))


def _why(op_type: str, outputs: Sequence[Comparison]) -> str:
    """Why no output that is over is a fault; a limit of the user's own means what it says."""
    said = ""
    for item in outputs:
        if item.over:
            built_in = item.limit.startswith(_BUILT_IN)
            said = chose_otherwise(op_type, item, outputs) if built_in else ""
            if not said:
                return ""
    return said


def _grown(
    arrays: GraphArrays,
    ops: Mapping[str, Op],
    outputs: Mapping[str, Sequence[Comparison]],
    start: str,
) -> str | None:
    """The first op after *start* whose error a few other choices do not explain."""
    item = worst(one for one in outputs[start] if one.over)
    assert item is not None
    assert item.metrics is not None
    limit = max(_GROWN * item.metrics.relative_euclidean_distance, _GROWN_AT_LEAST)
    for number in descendants(arrays, [arrays.number[start]]):
        op: str = arrays.ids[number]
        later = worst(outputs.get(op, ()))
        if later is None or later.metrics is None or not later.over:
            continue
        error = later.metrics.relative_euclidean_distance
        if not error <= limit:
            if not _why(ops[op].type, outputs[op]):
                return op
            limit = _GROWN * error  # what that choice made goes on, too
    return None


def _follows(arrays: GraphArrays, op: str, others: set[str]) -> bool:
    before = set(ancestors(arrays, [arrays.number[op]]).tolist())
    return any(arrays.number[other] in before for other in others)
