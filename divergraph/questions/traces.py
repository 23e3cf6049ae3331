"""Where an error goes: everything downstream of an op, and what lies between two ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.questions.answers import Trace, TraceStep
from divergraph.questions.facts import Facts, load_facts, resolve_op
from divergraph.questions.rows import measured_rows
from graphstore.algorithms import between, propagation, worst_before
from graphstore.contract import GraphStore
from graphstore.model import OpState, Side
from graphstore.op_row import OpRow

_OVER = (OpState.ORIGIN, OpState.INHERITED, OpState.BROKEN)


def trace(store: GraphStore, run: str, op: str, side: Side = Side.DEVICE) -> Trace:
    """What lies downstream of *op* up to the outputs, in execution order.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    facts = load_facts(store, run, side)
    op_id = resolve_op(store, run, op, side)
    rows = facts.rows
    number = facts.arrays.number[op_id]
    reach = propagation(facts.arrays, number)
    away = [(number, 0), *zip(reach.ops.tolist(), reach.distance.tolist(), strict=True)]
    steps = tuple(TraceStep(rows[at], distance) for at, distance in away)
    measured = [step for step in steps if step.row.metrics is not None]
    return Trace(
        op_id,
        steps,
        tuple(rows[at].id for at in reach.outputs.tolist()),
        len(measured),
        sum(step.row.state in _OVER for step in measured),
        tuple(_healed(facts, rows, reach.ops.tolist(), {number, *reach.ops.tolist()})),
    )


def ops_between(
    store: GraphStore,
    target: str,
    starts: Sequence[str],
    ends: Sequence[str],
    side: Side = Side.DEVICE,
) -> list[OpRow]:
    """The ops on some way from a start to an end, both included, in topo order.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    facts = load_facts(store, target, side)
    numbers = between(
        facts.arrays,
        [facts.arrays.number[resolve_op(store, target, name, side)] for name in starts],
        [facts.arrays.number[resolve_op(store, target, name, side)] for name in ends],
    )
    return [facts.rows[number] for number in numbers]


def _healed(
    facts: Facts, rows: Sequence[OpRow], below: Sequence[int], inside: set[int]
) -> list[str]:
    if facts.run is None:
        return []
    # of the ops inside, 0 is over its limits, 1 is not; so 0 is left where all of them are
    not_over = np.full(len(rows), np.nan)
    for number in inside:
        not_over[number] = rows[number].state not in _OVER
    all_over = worst_before(facts.arrays, measured_rows(rows), not_over) == 0
    calm = (OpState.CLEAN, OpState.DRIFTING)
    return [rows[op].id for op in below if all_over[op] and rows[op].state in calm]
