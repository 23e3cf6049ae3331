"""Where an error goes: everything downstream of an op, and what lies between two ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.ask.facts import Facts, load_facts, resolve_op
from divergraph.ask.path_gains import with_gains
from divergraph.ask.paths import ATTENUATES, error_paths
from divergraph.ask.rows import measured_rows
from divergraph.ask.trace_answers import Trace, TraceStep
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Level, OpState, Role, Side
from graphstore.op_row import OpRow
from graphstore.traverse.algorithms import ancestors, between, propagation, worst_before
from graphstore.traverse.arrays import Bool

_OVER = (OpState.ORIGIN, OpState.INHERITED, OpState.BROKEN)


def trace(
    store: GraphStore,
    run: str,
    op: str | None = None,
    side: Side = Side.DEVICE,
    *,
    to: str | None = None,
) -> Trace:
    """What lies downstream of *op* up to the outputs (or to the op *to*), in execution order.

    Without *op* it starts at the first origin of the run.

    Raises:
        UnknownNameError: no such run, graph or op.
        InputError: no path leads from *op* to *to*, or *op* is None and there is no origin.
    """
    facts = load_facts(store, run, side)
    op_id = _first_origin(facts, run) if op is None else resolve_op(store, run, op, side)
    rows = facts.rows
    number = facts.arrays.number[op_id]
    reach = propagation(facts.arrays, number)
    inside = np.zeros(len(rows), dtype=np.bool_)
    inside[reach.ops] = inside[number] = True
    outputs = reach.outputs.tolist()
    if to is not None:
        outputs = [facts.arrays.number[resolve_op(store, run, to, side)]]
        _narrow(facts, inside, op_id, outputs[0])
    far = zip(reach.ops.tolist(), reach.distance.tolist(), strict=True)
    away = [(number, 0), *((at, distance) for at, distance in far if inside[at])]
    steps = tuple(TraceStep(rows[at], distance) for at, distance in away)
    measured = [step for step in steps if step.row.metrics is not None]
    below = [at for at, _ in away[1:]]
    healed = tuple(_healed(facts, rows, below, {number, *below}))
    paths = error_paths(facts, number, inside, outputs, frozenset(healed))
    if facts.run is not None and side is Side.DEVICE:
        paths = with_gains(store, run, paths)
    return Trace(
        op_id,
        steps,
        tuple(rows[at].id for at in outputs),
        len(measured),
        sum(_is_over_a_limit(step.row) for step in measured),
        healed,
        paths,
    )


def _is_over_a_limit(row: OpRow) -> bool:
    """As ``compare`` counts it: an op may be to blame though its output is within limits."""
    return row.level is Level.FAIL or (row.level is None and row.state in _OVER)


def _first_origin(facts: Facts, run: str) -> str:
    if not facts.origins:
        raise InputError(f"{run!r} has no origin to start from", hint="name an op to trace")
    return facts.origins[0].op


def _narrow(facts: Facts, inside: Bool, op: str, end: int) -> None:
    """Keep of the mask *inside* what leads to *end*."""
    if not inside[end]:
        raise InputError(
            f"no path leads from {op} to {facts.arrays.ids[end]}",
            hint="is it the other way round? `trace` follows the data",
        )
    leads = np.zeros_like(inside)
    leads[ancestors(facts.arrays, [end])] = True
    leads[end] = True
    inside &= leads


def ops_between(store: GraphStore, target: str, start: str, end: str) -> list[OpRow]:
    """The ops of the device (or only) graph on some path from *start* to *end*, both included, in
    topo order.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    facts = load_facts(store, target)
    ends = [facts.arrays.number[resolve_op(store, target, name)] for name in (start, end)]
    return [facts.rows[number] for number in between(facts.arrays, ends[:1], ends[1:])]


def _healed(
    facts: Facts, rows: Sequence[OpRow], below: Sequence[int], inside: set[int]
) -> list[str]:
    if facts.run is None:
        return []
    # of the ops inside, 0 carries the error, 1 does not; so 0 is left where all of them do
    without = np.full(len(rows), np.nan)
    for number in inside:
        without[number] = not _carries(rows[number])
    all_carry = worst_before(facts.arrays, measured_rows(rows), without) == 0
    return [rows[op].id for op in below if all_carry[op] and _is_well(rows[op])]


def _is_well(row: OpRow) -> bool:
    if row.metrics is None or _carries(row):
        return False
    # a clean role may still mean a larger error than before, where precision explains much
    return row.split is None or row.gain is None or row.gain < ATTENUATES


def _carries(row: OpRow) -> bool:
    """True if the op has a notable error: by its role, else by its limits."""
    if row.split is not None and row.split.role is not Role.UNKNOWN:
        return row.split.role is not Role.CLEAN
    return row.state in _OVER
