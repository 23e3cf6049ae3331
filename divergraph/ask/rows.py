"""The op table: one row per op with its worst output, state, gain and origins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from divergraph.ask.reach import upstream_of_each
from divergraph.ask.reasons import ReasonCounter
from divergraph.thresholds.verdicts import worst
from graphstore.contract import GraphStore, ListedOp
from graphstore.model import (
    Comparison,
    ErrorSplit,
    Guilt,
    MetricSet,
    OpState,
    Reason,
    Side,
    Tensor,
    TensorIO,
)
from graphstore.op_row import OpRow
from graphstore.traverse.algorithms import worst_before
from graphstore.traverse.arrays import Bool, GraphArrays

_CARRIES = (OpState.INHERITED, OpState.BROKEN)
_NO_TENSOR = Tensor("")


def read_rows(
    store: GraphStore, target: str, side: Side, arrays: GraphArrays, reasons: ReasonCounter
) -> list[OpRow]:
    """The rows of all ops in topo order, gains and origins not yet known; what was not
    compared is added to *reasons*."""
    rows = []
    for topo, op in enumerate(store.listed_ops(target, side)):
        for item in op.results:
            reasons.add(item)
        rows.append(_row(op, side, topo, arrays.ids[topo]))
    return rows


def with_causes(
    rows: Sequence[OpRow], arrays: GraphArrays, origins: Sequence[str]
) -> tuple[OpRow, ...]:
    """*rows* with what depends on other rows: gains, and the origins upstream."""
    gains = _gains(rows, arrays)
    upstream = upstream_of_each(arrays, [arrays.number[op] for op in origins])
    names: dict[tuple[int, ...], tuple[str, ...]] = {}
    found = []
    for number, row in enumerate(rows):
        gain = None if math.isnan(gains[number]) else gains[number]
        reached = upstream[number] if row.state in _CARRIES else ()
        if reached not in names:
            names[reached] = tuple(origins[place] for place in reached)
        causes = tuple(op for op in names[reached] if op != row.id)
        keep = gain is None and not causes
        found.append(row if keep else replace(row, gain=gain, origins=causes))
    return tuple(found)


def _row(op: ListedOp, side: Side, topo: int, op_id: str) -> OpRow:
    outputs = [item for item in op.results if item.io is TensorIO.OUTPUT]
    item = worst(outputs)
    port = item.port if item is not None else 0
    tensor = op.outputs[port] if port < len(op.outputs) else _NO_TENSOR
    reason, detail = _why_not(outputs) if item is None else (None, item.detail)
    dtype = item.device_dtype if item is not None else tensor.dtype
    names = op.original_names
    return OpRow(
        topo=topo,
        id=op_id,
        name=op_id if op.name == op_id else op.name,
        type=op.type,
        side=side,
        subgraph=op.subgraph,
        dtype=dtype.value if dtype is not None else "",
        shape=item.shape if item is not None and item.shape is not None else tensor.shape,
        layout=tensor.layout or "",
        fused=1 if names is None else len(names),
        originals=op.partners or (names or () if side is Side.DEVICE else ()),
        state=op.state,
        level=None if item is None else item.level,
        output=None if item is None else item.port,
        metrics=None if item is None else item.metrics,
        failed=() if item is None else item.failed,
        reason=reason,
        detail=detail,
        split=most_suspicious(outputs),
    )


def most_suspicious(outputs: Iterable[Comparison]) -> ErrorSplit | None:
    """The split that says most against an op: the guiltiest, then the largest suspicion."""
    splits = [item.split for item in outputs if item.split is not None]
    return max(splits, key=split_weight, default=None)


_GUILT = {Guilt.NONE: 0, Guilt.SUSPECT: 1, Guilt.GUILTY: 2}


def split_weight(split: ErrorSplit) -> tuple[int, float]:
    """Sort key of how much a split says against an op: its guilt, then its suspicion."""
    suspicion = -1.0 if split.suspicion is None else split.suspicion
    return _GUILT[split.guilt], suspicion


def _why_not(outputs: Sequence[Comparison]) -> tuple[Reason | None, str]:
    first = next((item for item in outputs if item.reason is not None), None)
    return (None, "") if first is None else (first.reason, first.detail)


def _gains(rows: Sequence[OpRow], arrays: GraphArrays) -> list[float]:
    """Error out over the worst error of the nearest measured ancestors, else NaN."""
    errors = np.array([_error(row) for row in rows], dtype=np.float64)
    errors[~np.isfinite(errors)] = np.nan
    before = worst_before(arrays, measured_rows(rows), errors)
    before[before <= 0.0] = np.nan
    gains: list[float] = (errors / before).tolist()
    return gains


def _error(row: OpRow) -> float:
    return relative_error(row.metrics)


def relative_error(metrics: MetricSet | None) -> float:
    """The relative error, NaN where none is known."""
    return math.nan if metrics is None else metrics.relative_euclidean_distance


def measured_rows(rows: Sequence[OpRow]) -> Bool:
    """Which ops have metrics, by number."""
    return np.array([row.metrics is not None for row in rows], dtype=np.bool_)
