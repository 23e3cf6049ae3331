"""A run at a glance: verdict, origins, worst tensors, what was not compared and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from divergraph.analysis.verdicts import badness
from divergraph.questions.answers import CurvePoint, ModuleRow, Overview, ReasonGroup
from divergraph.questions.facts import Facts, load_facts
from divergraph.questions.rows import rows_of
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import Comparison, OpState, Reason, Side
from graphstore.op_row import OpRow

_SHOWN = 10
_EXAMPLES = 3


def overview(store: GraphStore, run: str) -> Overview:
    """What the first screen shows of *run*.

    Raises:
        UnknownNameError: no such run (an imported graph has no overview).
    """
    facts = load_facts(store, run)
    if facts.run is None:
        raise UnknownNameError("run", run)
    golden = load_facts(store, run, Side.GOLDEN)
    rows = rows_of(facts)
    by_id = {row.id: row for row in rows}
    return Overview(
        run=facts.run,
        origins=facts.origins,
        origin_rows=tuple(by_id[origin.op] for origin in facts.origins),
        worst=tuple(worst_rows(rows)[:_SHOWN]),
        state_counts=Counter(facts.states.values()),
        reasons=tuple(reason_groups(facts.comparisons)),
        curve=tuple(_curve(rows)),
        golden_name=golden.graph.name,
        golden_framework=golden.graph.framework.value,
        golden_ops=len(golden.graph.ops),
        device_name=facts.graph.name,
        device_framework=facts.graph.framework.value,
        device_ops=len(facts.graph.ops),
        matched_ops=len(facts.links),
        matched_originals=len(golden.links),
        modules=tuple(_modules(rows)[:_SHOWN]),
    )


def worst_rows(rows: Iterable[OpRow]) -> list[OpRow]:
    """Rows with metrics, worst first."""
    measured = [row for row in rows if row.metrics is not None]

    def key(row: OpRow) -> tuple[int, float, float]:
        assert row.metrics is not None
        return badness(row.metrics)

    return sorted(measured, key=key, reverse=True)


def reason_groups(comparisons: Iterable[Comparison]) -> list[ReasonGroup]:
    """Tensors not compared by reason, the most frequent first; ops without any output
    have nothing to compare and are left out, as in the counts."""
    ops: dict[Reason, list[str]] = {}
    for item in comparisons:
        if item.reason is not None and item.port >= 0:
            ops.setdefault(item.reason, []).append(item.op)
    groups = [
        ReasonGroup(reason, len(names), tuple(dict.fromkeys(names))[:_EXAMPLES])
        for reason, names in ops.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.reason.value))


def _cosine(row: OpRow) -> float | None:
    if row.metrics is None or not math.isfinite(row.metrics.cosine_similarity):
        return None
    return row.metrics.cosine_similarity


def _curve(rows: Iterable[OpRow]) -> list[CurvePoint]:
    return [
        CurvePoint(row.topo, row.id, _cosine(row), row.state)
        for row in rows
        if row.metrics is not None and row.state is not None
    ]


def _modules(rows: Sequence[OpRow]) -> list[ModuleRow]:
    """Name spaces that tell the model's parts apart, the worst first."""
    depth = _module_depth(rows)
    members: dict[str, list[OpRow]] = {}
    for row in rows:
        parts = row.name.split("/")[:-1][:depth]
        if parts:
            members.setdefault("/".join(parts), []).append(row)
    modules = [
        ModuleRow(
            name,
            len(inside),
            min((cosine for row in inside if (cosine := _cosine(row)) is not None), default=None),
            Counter(row.state for row in inside if row.state is not None),
        )
        for name, inside in members.items()
    ]
    order = {OpState.ORIGIN: 0, OpState.BROKEN: 1}

    def key(module: ModuleRow) -> tuple[int, float, str]:
        rank = min((order.get(state, 2) for state in module.states), default=2)
        cosine = 2.0 if module.worst_cosine is None else module.worst_cosine
        return rank, cosine, module.name

    return sorted(modules, key=key)


def _module_depth(rows: Sequence[OpRow]) -> int:
    """The smallest depth of name spaces with at least three modules (at most 4)."""
    for depth in range(1, 5):
        names = {"/".join(row.name.split("/")[:-1][:depth]) for row in rows} - {""}
        if len(names) >= 3:
            return depth
    return 4


def facts_types(facts: Facts) -> dict[str, str]:
    """The type of each op by id."""
    return {op.id: op.type for op in facts.graph.ops}
