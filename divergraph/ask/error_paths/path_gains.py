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
    near = _near_several(facts)
    concerned = [np.flatnonzero(near[path.steps.numbers]).tolist() for path in paths]
    if not any(concerned):  # the rows of the ops say it all
        return tuple(paths)
    named = dict.fromkeys(
        facts.arrays.ids[number]
        for path, places in zip(paths, concerned, strict=True)
        for at in places
        for number in path.steps.numbers[at : at + 2].tolist()
    )
    ops = store.ops(run, list(named))
    before = {made.op for op in ops.values() for made in op.takes}
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
    near, arrays = facts.rows.several.copy(), facts.arrays
    for op in np.flatnonzero(facts.rows.several).tolist():
        near[arrays.successors(op)] = True
    return near


def _rows(
    steps: PathSteps, places: Sequence[int], ops: Mapping[str, Op], measured: _Errors
) -> dict[int, OpRow]:
    """The rows at those *places* where they are other than those of the ops."""
    ids, numbers = steps.region.facts.arrays.ids, steps.numbers.tolist()
    found = {}
    for at in places:
        after = ops.get(ids[numbers[at + 1]]) if at + 1 < len(numbers) else None
        row = _row(steps[at].row, ops[ids[numbers[at]]], after, measured)
        if row is not None:
            found[at] = row
    return found


def _row(row: OpRow, op: Op, after: Op | None, measured: _Errors) -> OpRow | None:
    port = row.output
    if after is not None:
        read = [made.port for made in after.takes if made.op == op.id and made in measured]
        port = max(read, key=lambda each: _error(measured[TensorRef(op.id, each)]), default=port)
    item = None if port is None else measured.get(TensorRef(op.id, port))
    if item is None:
        return None
    given = [_error(measured[made]) for made in op.takes if made in measured]
    most = max((each for each in given if math.isfinite(each)), default=0.0)
    gain, error = row.gain, _error(item)
    if most > 0.0 and math.isfinite(error):
        gain = error / most
    return replace(row, output=port, metrics=item.metrics, gain=gain)


def _error(item: Comparison) -> float:
    return relative_error(item.metrics)
