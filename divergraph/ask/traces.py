"""Where an error goes: everything downstream of an op, and what lies between two ops."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from divergraph.ask.error_paths.path_gains import with_gains
from divergraph.ask.error_paths.path_steps import ATTENUATES
from divergraph.ask.error_paths.paths import error_paths
from divergraph.ask.facts import Facts, find_run, load_facts, resolve_op
from divergraph.ask.few_rows import rows_of
from divergraph.ask.trace_answers import Trace, TraceSteps
from divergraph.submodel.boundary import SHAPE_TELLERS
from graphstore.columns.op_columns import OpColumns
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Level, OpState, Role, Side
from graphstore.op_row import OpRow
from graphstore.traverse.algorithms import ancestors, between, propagation, worst_before
from graphstore.traverse.arrays import Bool, Int32

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
    is_inside = inside[reach.ops]
    below = reach.ops[is_inside]
    steps = TraceSteps(rows, np.append(number, below), np.append(0, reach.distance[is_inside]))
    measured = steps.numbers[rows.has_metrics[steps.numbers]]
    healed = _healed(facts, below, steps.numbers)
    paths = error_paths(facts, number, inside, outputs, healed)
    if facts.run is not None and side is Side.DEVICE:
        paths = with_gains(store, run, paths, facts)
    return Trace(
        op_id,
        steps,
        tuple(facts.arrays.ids[at] for at in outputs),
        len(measured),
        int(np.count_nonzero(_over_a_limit(rows)[measured])),
        tuple(facts.arrays.ids[at] for at in healed.tolist()),
        paths,
    )


def _over_a_limit(ops: OpColumns) -> Bool:
    """As ``compare`` counts it: an op may be to blame though its output is within limits."""
    over: Bool = ops.levels.equal(Level.FAIL) | (ops.levels.equal(None) & _over(ops))
    return over


def _over(ops: OpColumns) -> Bool:
    return ops.states.where(lambda state: state in _OVER)


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
    topo order; of the golden graph where only that has ops of both names.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    try:
        return _on_paths(store, target, start, end, Side.DEVICE)
    except UnknownNameError:
        if not find_run(store, target):
            raise
        with suppress(UnknownNameError):
            return _on_paths(store, target, start, end, Side.GOLDEN)
        raise


def _on_paths(store: GraphStore, target: str, start: str, end: str, side: Side) -> list[OpRow]:
    arrays = store.arrays(target, side)
    ends = [arrays.number[resolve_op(store, target, name, side)] for name in (start, end)]
    numbers = between(arrays, ends[:1], ends[1:]).tolist()
    return list(rows_of(store, target, numbers, side))


def _healed(facts: Facts, below: Int32, inside: Int32) -> Int32:
    """The ops *below* that are well though all that feeds them *inside* carries the error, and
    whose results depend on its values."""
    if facts.run is None:
        return below[:0]
    ops, carries = facts.rows, _carries(facts.rows)
    # of the ops inside, 0 carries the error, 1 does not; so 0 is left where all of them do
    without = np.full(len(ops), np.nan)
    without[inside] = ~carries[inside]
    all_carry = worst_before(facts.arrays, ops.has_metrics, without) == 0
    # a clean role may still mean a larger error than before, where precision explains much
    lessened = (ops.judged < 0) | ~(ops.gain >= ATTENUATES)
    takes_values = ~ops.types.where(SHAPE_TELLERS.__contains__)
    well = ops.has_metrics & ~carries & lessened & all_carry & takes_values
    healed: Int32 = below[well[below]]
    return healed


def _carries(ops: OpColumns) -> Bool:
    """The ops with a notable error: by their role, else by their limits."""
    splits = ops.splits.roles
    notable = np.append(splits.where(lambda role: role is not Role.CLEAN), False)[ops.judged]
    unknown = np.append(splits.equal(Role.UNKNOWN), True)[ops.judged]
    carries: Bool = np.where(unknown, _over(ops), notable)
    return carries
