"""The rows of a run made one by one from its whole values: what columns are held against."""

from __future__ import annotations

from divergraph.ask.rows import split_weight
from divergraph.thresholds.verdicts import worst
from graphstore.contract import RunData
from graphstore.model import ErrorSplit, Op, Side, TensorIO
from graphstore.op_row import OpRow
from graphstore.traverse.topological_order import topo_order


def rows_by_hand(data: RunData, side: Side) -> list[OpRow]:
    """The rows of one side, but for gains and origins, which depend on other rows."""
    graph = data.device if side is Side.DEVICE else data.golden
    ops = graph.op_index()
    return [_row(data, ops[op], side, topo) for topo, op in enumerate(topo_order(graph))]


def _row(data: RunData, op: Op, side: Side, topo: int) -> OpRow:
    on_device = side is Side.DEVICE
    ends = [
        (link.device, link.original) if on_device else (link.original, link.device)
        for link in data.links
    ]
    partners = tuple(dict.fromkeys(other for own, other in ends if own == op.id))
    found = [item for item in data.comparisons if item.op == op.id and on_device]
    outputs = [item for item in found if item.io is TensorIO.OUTPUT]
    item = worst(outputs)
    port = 0 if item is None else item.port
    tensor = op.outputs[port] if port < len(op.outputs) else None
    why = next((each for each in outputs if each.reason is not None), None)
    told = item or why
    shape = None if tensor is None else tensor.shape
    dtype = None if tensor is None else tensor.dtype
    if item is not None:
        shape, dtype = shape if item.shape is None else item.shape, item.device_dtype
    names = op.original_names
    return OpRow(
        topo=topo,
        id=op.id,
        name=op.name,
        type=op.type,
        side=side,
        subgraph=op.subgraph,
        dtype="" if dtype is None else dtype.value,
        shape=shape,
        layout=(tensor.layout or "") if tensor is not None else "",
        fused=1 if names is None else len(names),
        originals=partners or (names or () if on_device else ()),
        state=data.states[op.id] if found else None,
        level=None if item is None else item.level,
        output=None if item is None else item.port,
        metrics=None if item is None else item.metrics,
        failed=() if item is None else item.failed,
        reason=why.reason if item is None and why is not None else None,
        detail="" if told is None else told.detail,
        split=_most_suspicious([each.split for each in outputs if each.split is not None]),
    )


def _most_suspicious(splits: list[ErrorSplit]) -> ErrorSplit | None:
    return max(splits, key=split_weight, default=None)
