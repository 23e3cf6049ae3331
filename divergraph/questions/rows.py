"""The op table: one row per op with its worst output, state, gain and origins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from divergraph.analysis.verdicts import worst
from divergraph.questions.facts import Facts, load_facts
from graphstore.algorithms import descendants, next_measured
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Op, OpState, Reason, Side, Tensor
from graphstore.op_filter import OpFilter
from graphstore.op_row import OpRow

_CARRIES = (OpState.INHERITED, OpState.BROKEN)


def op_rows(
    store: GraphStore,
    target: str,
    side: Side = Side.DEVICE,
    where: OpFilter | None = None,
) -> list[OpRow]:
    """The ops of a run's side or of an imported graph in topo order, filtered.

    Raises:
        UnknownNameError: no such run or graph.
    """
    rows = rows_of(load_facts(store, target, side))
    return rows if where is None else [row for row in rows if where.matches(row)]


def rows_of(facts: Facts) -> list[OpRow]:
    """The rows of all ops in topo order."""
    known = getattr(facts, "_rows", None)
    if known is None:
        known = _build(facts)
        object.__setattr__(facts, "_rows", known)
    rows: list[OpRow] = known
    return list(rows)


def _build(facts: Facts) -> list[OpRow]:
    shown = {op_id: worst(items) for op_id, items in facts.outputs.items()}
    gains = _gains(facts, shown)
    origins = _origins_reaching(facts)
    return [
        _row(
            facts,
            facts.ops[op_id],
            topo,
            shown.get(op_id),
            gains.get(op_id),
            origins.get(op_id, ()),
        )
        for topo, op_id in enumerate(facts.arrays.ids)
    ]


def _row(
    facts: Facts,
    op: Op,
    topo: int,
    item: Comparison | None,
    gain: float | None,
    origins: Sequence[str],
) -> OpRow:
    port = item.port if item is not None else 0
    tensor = op.outputs[port] if port < len(op.outputs) else Tensor("")
    reason, detail = _why_not(facts.outputs.get(op.id, ())) if item is None else (None, "")
    dtype = item.device_dtype if item is not None else tensor.dtype
    shape = item.shape if item is not None and item.shape is not None else tensor.shape
    return OpRow(
        topo=topo,
        id=op.id,
        name=op.name,
        type=op.type,
        side=facts.side,
        subgraph=op.subgraph,
        dtype=dtype.value if dtype is not None else "",
        shape=shape,
        layout=tensor.layout or "",
        fused=1 if op.original_names is None else len(op.original_names),
        originals=_originals(facts, op),
        state=facts.states.get(op.id),
        level=None if item is None else item.level,
        output=None if item is None else item.port,
        metrics=None if item is None else item.metrics,
        failed=() if item is None else item.failed,
        reason=reason,
        detail=detail,
        gain=gain,
        origins=tuple(origins),
    )


def _originals(facts: Facts, op: Op) -> tuple[str, ...]:
    links = facts.links.get(op.id, ())
    if facts.side is Side.GOLDEN:
        return tuple(dict.fromkeys(link.device for link in links))
    return tuple(dict.fromkeys(link.original for link in links)) or (op.original_names or ())


def _why_not(outputs: Sequence[Comparison]) -> tuple[Reason | None, str]:
    first = next((item for item in outputs if item.reason is not None), None)
    return (None, "") if first is None else (first.reason, first.detail)


def relative_error(item: Comparison | None) -> float | None:
    """The relative Euclidean distance of a compared tensor, None if it has none."""
    if item is None or item.metrics is None:
        return None
    value = item.metrics.relative_euclidean_distance
    return value if math.isfinite(value) else None


def _gains(facts: Facts, shown: Mapping[str, Comparison | None]) -> dict[str, float]:
    """Error out over the worst error of the nearest measured ancestors, where both are known."""
    errors = {op_id: relative_error(item) for op_id, item in shown.items()}
    gains: dict[str, float] = {}
    for number, sources in nearest_measured(facts).items():
        op_id = facts.arrays.ids[number]
        error = errors.get(op_id)
        known = [errors.get(facts.arrays.ids[source]) for source in sources]
        before = max((value for value in known if value is not None), default=0.0)
        if error is not None and before > 0.0:
            gains[op_id] = error / before
    return gains


def nearest_measured(facts: Facts) -> dict[int, list[int]]:
    """For each measured op number, the measured ones reaching it through unmeasured only."""
    nearest: dict[int, list[int]] = {}
    sources, targets = next_measured(facts.arrays, measured_mask(facts))
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        nearest.setdefault(target, []).append(source)
    return nearest


def measured_mask(facts: Facts) -> NDArray[np.bool_]:
    """True for each op number with a compared output."""
    ids = facts.arrays.ids
    return np.array(
        [any(item.compared for item in facts.outputs.get(op_id, ())) for op_id in ids], dtype=bool
    )


def _origins_reaching(facts: Facts) -> dict[str, list[str]]:
    """For each op that carries an error, the origins upstream of it in rank order."""
    reached: dict[str, list[str]] = {}
    for origin in facts.origins:
        start = facts.arrays.number[origin.op]
        for number in descendants(facts.arrays, [start]):
            op_id = facts.arrays.ids[number]
            if op_id != origin.op and facts.states.get(op_id) in _CARRIES:
                reached.setdefault(op_id, []).append(origin.op)
    return reached
