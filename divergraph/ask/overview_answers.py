"""A run at a glance: verdict, origins, worst tensors, what was not compared and why."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from divergraph.ask.answers import ModuleRow, Overview
from divergraph.ask.facts import load_facts
from divergraph.ask.origin_answers import OriginAnswer, origins
from graphstore.columns.coded import Bool, Coded, Float
from graphstore.columns.op_columns import OpColumns
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import Level, Metric, OpState, Side
from graphstore.op_row import OpRow

_SHOWN = 10
_FIRST = 8
"""So many origins a first look tells all of."""


def overview(store: GraphStore, run: str) -> Overview:
    """The overview of *run*.

    Raises:
        UnknownNameError: no such run (an imported graph has no overview).
    """
    facts = load_facts(store, run)
    if facts.run is None:
        raise UnknownNameError("run", run)
    rows = facts.rows
    sides = sides_of(store, run)
    suspects = () if facts.answer is None else tuple(one.origin for one in facts.answer.suspects)
    return Overview(
        run=facts.run,
        origins=facts.origins,
        origin_rows=tuple(rows[facts.arrays.number[origin.op]] for origin in facts.origins),
        worst=tuple(rows[number] for number in worst_ops(rows, _SHOWN)),
        state_counts={
            state: count for state, count in rows.states.counted().items() if state is not None
        },
        reasons=facts.reasons,
        golden_name=str(sides["golden"]),
        golden_framework=str(sides["golden_framework"]),
        golden_ops=int(sides["golden_ops"]),
        device_name=str(sides["device"]),
        device_framework=str(sides["device_framework"]),
        device_ops=len(rows),
        matched_ops=int(sides["linked_device_ops"]),
        matched_originals=int(sides["linked_golden_ops"]),
        modules=tuple(modules_of(rows)[:_SHOWN]),
        suspects=suspects,
        suspect_rows=tuple(rows[facts.arrays.number[origin.op]] for origin in suspects),
        answer=facts.answer,
    )


def first_look(store: GraphStore, run: str) -> Overview:
    """What the record of *run* says at once, however big its graphs are: verdict, counts, origins.

    Raises:
        UnknownNameError: no such run.
    """
    answer = origins(store, run, next_dumps=False, details=_FIRST)
    value = answer.run
    return Overview(
        run=value,
        origins=tuple(one.origin for one in answer.origins),
        origin_rows=tuple(_recorded(one, OpState.ORIGIN) for one in answer.origins),
        worst=(),
        state_counts={},
        reasons=(),
        golden_name="",
        golden_framework="",
        golden_ops=0,
        device_name="",
        device_framework="",
        device_ops=value.counts.ops,
        matched_ops=0,
        matched_originals=0,
        modules=(),
        suspects=tuple(one.origin for one in answer.suspects),
        suspect_rows=tuple(_recorded(one, None) for one in answer.suspects),
        answer=answer,
        is_whole=False,
    )


def _recorded(one: OriginAnswer, state: OpState | None) -> OpRow:
    """The row of an op as far as the run's record tells it."""
    origin = one.origin
    return OpRow(
        topo=-1,
        id=origin.op,
        name=origin.op,
        type=origin.type,
        side=Side.DEVICE,
        subgraph="",
        dtype="",
        shape=None,
        layout="",
        fused=1,
        originals=(),
        state=state,
        level=origin.level,
        output=origin.output,
        metrics=origin.metrics,
        split=one.split,
    )


def sides_of(store: GraphStore, run: str) -> dict[str, Any]:
    """Names, frameworks and sizes of the models of a run, as the query ``sides`` tells them."""
    answer = store.named("sides", run, {})
    return dict(zip(answer.columns, answer.rows[0], strict=True))


def worst_ops(ops: OpColumns, count: int) -> list[int]:
    """The numbers of the *count* worst of the measured *ops*, as
    :func:`divergraph.thresholds.verdicts.badness` says, worst first."""
    metrics, numbers = ops.metrics, np.flatnonzero(ops.has_metrics)
    error = metrics.numbers[Metric.RELATIVE_EUCLIDEAN_DISTANCE.value]
    passed = ops.levels.take(numbers).equal(Level.PASS)  # with infinities: both sides have them
    instead = np.where(metrics.finite, metrics.share_different, np.where(passed, 0.0, np.inf))
    cosine = metrics.numbers[Metric.COSINE_SIMILARITY.value]
    cosine = np.where(np.isnan(cosine), passed & np.isnan(error) & ~metrics.finite, cosine)
    error = np.where(np.isnan(error), instead, error)
    worst: list[int] = numbers[np.lexsort((cosine, -error, ~metrics.broken))[:count]].tolist()
    return worst


def modules_of(ops: OpColumns) -> list[ModuleRow]:
    """The name spaces that divide the model into parts, the worst first."""
    modules = _modules(ops)
    members = np.argsort(modules.codes, kind="stable")
    ends = np.cumsum(np.bincount(modules.codes, minlength=len(modules.values)))
    inside = np.split(members, ends[:-1])
    cosines, broken = _cosines(ops), _broken_by_nan(ops)
    rows = [
        ModuleRow(
            name,
            len(numbers),
            math.nan if np.any(broken[numbers]) else _worst_cosine(cosines[numbers]),
            {
                state: count
                for state, count in ops.states.take(numbers).counted().items()
                if state is not None
            },
        )
        for name, numbers in zip(modules.values, inside, strict=True)
        if name
    ]
    order = {OpState.ORIGIN: 0, OpState.BROKEN: 1}

    def key(module: ModuleRow) -> tuple[int, float, str]:
        rank = min((order.get(state, 2) for state in module.states), default=2)
        cosine = 2.0 if module.worst_cosine is None else module.worst_cosine
        return rank, -2.0 if math.isnan(cosine) else cosine, module.name

    return sorted(rows, key=key)


def _cosines(ops: OpColumns) -> Float:
    """Cosines, NaN where there is none or it is no finite number."""
    cosine = ops.figure(Metric.COSINE_SIMILARITY.value)
    cosine[~np.isfinite(cosine)] = np.nan
    return cosine


def _broken_by_nan(ops: OpColumns) -> Bool:
    """The ops with NaN or Inf that golden has not, which have no cosine therefore."""
    broken: Bool = ops.broken & np.isnan(ops.figure(Metric.COSINE_SIMILARITY.value))
    return broken


def _worst_cosine(cosines: Float) -> float | None:
    """The worst cosine; None if nothing is known."""
    cosine = cosines[~np.isnan(cosines)]
    return float(cosine.min()) if len(cosine) else None


def _modules(ops: OpColumns) -> Coded[str]:
    """The module of each op, empty if it is in none: the smallest depth of name spaces (up to 4)
    with at least three modules, none of them with more than a third of all ops; else the smallest
    with three modules."""
    scopes = Coded.of(ops.name(number).rpartition("/")[0] for number in range(len(ops)))
    three: Coded[str] | None = None
    for depth in range(1, 5):
        cut = tuple(_cut(scope, depth) for scope in scopes.values)
        modules = Coded.joined([Coded(scopes.codes, cut)])
        sizes = [size for name, size in modules.counted().items() if name]
        if len(sizes) >= 3:
            three = modules if three is None else three
            if max(sizes) * 3 <= len(ops):
                return modules
    return modules if three is None else three


def _cut(scope: str, depth: int) -> str:
    """The first *depth* name spaces of *scope*."""
    return "/".join(scope.split("/")[:depth])
