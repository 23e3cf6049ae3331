"""The gain at each step of a path by the outputs the path goes through: an op of several outputs
may be right in one and wrong in another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.ask.error_paths.path_steps import PathSteps
from divergraph.ask.facts import Facts
from divergraph.ask.rows import relative_error
from divergraph.ask.trace_answers import ErrorPath
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Op, TensorIO, TensorRef
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import Bool

_Errors = Mapping[TensorRef, Comparison]


def with_gains(
    store: GraphStore, run: str, paths: Sequence[ErrorPath], facts: Facts
) -> tuple[ErrorPath, ...]:
    """*paths* with error and gain of the output each goes through, where an op, or one that feeds
    it, has several."""
    several = _near_several(facts)
    concerned = [np.flatnonzero(several[path.steps.numbers]).tolist() for path in paths]
    if not any(concerned):  # the rows of the ops say it all
        return tuple(paths)
    named = dict.fromkeys(
        facts.arrays.ids[number]
        for path, places in zip(paths, concerned, strict=True)
        for at in places
        for number in path.steps.numbers[at : at + 2].tolist()
    )
    ops = store.ops(run, list(named))
    before = {tensor.op for op in ops.values() for tensor in op.takes}
    items = store.comparisons(run, list(dict.fromkeys([*named, *before])))
    measured = {
        TensorRef(item.op, item.port): item
        for item in items
        if item.io is TensorIO.OUTPUT and item.metrics is not None
    }
    return tuple(
        replace(path, steps=replace(path.steps, rows=_rows(path.steps, places, ops, measured)))
        for path, places in zip(paths, concerned, strict=True)
    )


def _near_several(facts: Facts) -> Bool:
    """The ops that have several compared outputs, or read an op that has."""
    several, arrays = facts.rows.several.copy(), facts.arrays
    for op in np.flatnonzero(facts.rows.several).tolist():
        several[arrays.successors(op)] = True
    return several


def _rows(
    steps: PathSteps, places: Sequence[int], ops: Mapping[str, Op], measured: _Errors
) -> dict[int, OpRow]:
    """The rows at those *places* where they are other than those of the ops."""
    ids, numbers = steps.region.facts.arrays.ids, steps.numbers.tolist()
    rows = {}
    for at in places:
        after = ops.get(ids[numbers[at + 1]]) if at + 1 < len(numbers) else None
        row = _row(steps[at].row, ops[ids[numbers[at]]], after, measured)
        if row is not None:
            rows[at] = row
    return rows


def _row(row: OpRow, op: Op, after: Op | None, measured: _Errors) -> OpRow | None:
    port = row.output
    if after is not None:
        read = [ref.port for ref in after.takes if ref.op == op.id and ref in measured]
        port = max(read, key=lambda port: _error(measured[TensorRef(op.id, port)]), default=port)
    item = None if port is None else measured.get(TensorRef(op.id, port))
    if item is None:
        return None
    errors = [_error(measured[ref]) for ref in op.takes if ref in measured]
    largest = max((error for error in errors if math.isfinite(error)), default=0.0)
    gain, error = row.gain, _error(item)
    if largest > 0.0 and math.isfinite(error):
        gain = error / largest
    return replace(row, output=port, metrics=item.metrics, gain=gain)


def _error(item: Comparison) -> float:
    return relative_error(item.metrics)
