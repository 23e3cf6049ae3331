"""A run at a glance: verdict, origins, worst tensors, what was not compared and why."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from divergraph.ask.answers import CurvePoint, ModuleRow, Overview
from divergraph.ask.facts import load_facts
from divergraph.text.words import known
from divergraph.thresholds.verdicts import badness
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import Metric, OpState
from graphstore.op_row import OpRow

_SHOWN = 10


def overview(store: GraphStore, run: str) -> Overview:
    """The overview of *run*.

    Raises:
        UnknownNameError: no such run (an imported graph has no overview).
    """
    facts = load_facts(store, run)
    if facts.run is None:
        raise UnknownNameError("run", run)
    rows = facts.rows
    sides = _sides(store, run)
    suspects = () if facts.answer is None else tuple(one.origin for one in facts.answer.suspects)
    return Overview(
        run=facts.run,
        origins=facts.origins,
        origin_rows=tuple(rows[facts.arrays.number[origin.op]] for origin in facts.origins),
        worst=tuple(worst_rows(rows, _SHOWN)),
        state_counts=Counter(row.state for row in rows if row.state is not None),
        reasons=facts.reasons,
        curve=tuple(_curve(rows)),
        golden_name=str(sides["golden"]),
        golden_framework=str(sides["golden_framework"]),
        golden_ops=int(sides["golden_ops"]),
        device_name=str(sides["device"]),
        device_framework=str(sides["device_framework"]),
        device_ops=len(rows),
        matched_ops=int(sides["linked_device_ops"]),
        matched_originals=int(sides["linked_golden_ops"]),
        modules=tuple(_modules(rows)[:_SHOWN]),
        suspects=suspects,
        suspect_rows=tuple(rows[facts.arrays.number[origin.op]] for origin in suspects),
        answer=facts.answer,
    )


def _sides(store: GraphStore, run: str) -> dict[str, Any]:
    answer = store.named("sides", run, {})
    return dict(zip(answer.columns, answer.rows[0], strict=True))


def worst_rows(rows: Iterable[OpRow], count: int) -> list[OpRow]:
    """The *count* worst of the rows with metrics, worst first."""
    measured = (row for row in rows if row.metrics is not None)

    def key(row: OpRow) -> tuple[int, float, float]:
        assert row.metrics is not None
        return badness(row.metrics)

    return heapq.nlargest(count, measured, key=key)


def _cosine(row: OpRow) -> float | None:
    if row.metrics is None or not math.isfinite(row.metrics.cosine_similarity):
        return None
    return row.metrics.cosine_similarity


def _curve(rows: Iterable[OpRow]) -> list[CurvePoint]:
    return [
        CurvePoint(row.topo, row.id, _cosine(row), row.state)
        for row in rows
        if row.state is not None and known(row.metrics, Metric.COSINE_SIMILARITY) is not None
    ]


def _modules(rows: Sequence[OpRow]) -> list[ModuleRow]:
    """The name spaces that divide the model into parts, the worst first."""
    depth = _module_depth(rows)
    members: dict[str, list[OpRow]] = {}
    for row in rows:
        name = _module(row, depth)
        if name:
            members.setdefault(name, []).append(row)
    modules = [
        ModuleRow(
            name,
            len(inside),
            _worst_cosine(inside),
            Counter(row.state for row in inside if row.state is not None),
        )
        for name, inside in members.items()
    ]
    order = {OpState.ORIGIN: 0, OpState.BROKEN: 1}

    def key(module: ModuleRow) -> tuple[int, float, str]:
        rank = min((order.get(state, 2) for state in module.states), default=2)
        cosine = 2.0 if module.worst_cosine is None else module.worst_cosine
        return rank, -2.0 if math.isnan(cosine) else cosine, module.name

    return sorted(modules, key=key)


def _module(row: OpRow, depth: int) -> str:
    """The first *depth* name spaces of the op, empty if it is in none."""
    return "/".join(row.name.split("/")[:-1][:depth])


def _worst_cosine(rows: Sequence[OpRow]) -> float | None:
    """The worst cosine; NaN where the device has NaN or Inf that golden has not, None if nothing is
    known."""
    metrics = [row.metrics for row in rows if row.metrics is not None]
    broken = (one for one in metrics if one.device_nonfinite > one.golden_nonfinite)
    if any(math.isnan(one.cosine_similarity) for one in broken):
        return math.nan
    return min((cosine for row in rows if (cosine := _cosine(row)) is not None), default=None)


def _module_depth(rows: Sequence[OpRow]) -> int:
    """The smallest depth of name spaces (up to 4) with at least three modules, none of them with
    more than a third of all ops; else the smallest with three modules."""
    three = 0
    for depth in range(1, 5):
        names = (_module(row, depth) for row in rows)
        sizes = Counter(name for name in names if name)
        if len(sizes) >= 3:
            three = three or depth
            if max(sizes.values()) * 3 <= len(rows):
                return depth
    return three or 4
