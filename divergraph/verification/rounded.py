"""Outputs that were rounded to integers: next to a tie, a value may go either way.

A device multiplies by a scale in half precision. What it rounds is therefore a little off, and of
a large tensor many values lie so near to a tie that they come out as the neighbouring integer. None
of them is wrong. A value farther from its tie than the roundings reach is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.translate.ge.matrices import UNROUNDED
from divergraph.values.array_types import Array
from divergraph.values.unread import Unread
from divergraph.verification.alone import LoneOp, fed, graph_of, inputs_of, opened
from graphstore.model import ModelGraph, TensorRef

ROUNDING = frozenset({"AscendQuant", "AscendRequant"})
_HALF = 2.0**-11
"""The largest relative error of one rounding to float16."""
_ENDS = np.iinfo(np.int8).min, np.iinfo(np.int8).max


def on_either_side(
    source: ModelGraph, ops: Mapping[str, LoneOp], outputs: Iterable[TensorRef], memory: int
) -> frozenset[TensorRef]:
    """Those of *outputs* of rounding *ops* whose every value is one of the integers its value
    before the rounding may become."""
    rounding_ops = {ref.op: ops[ref.op] for ref in outputs if ops[ref.op].op.type in ROUNDING}
    if not rounding_ops:
        return frozenset()
    variants = [
        replace(lone_op.op, attrs={**lone_op.op.attrs, UNROUNDED: True})
        for lone_op in rounding_ops.values()
    ]
    pieces = [
        RunnableSubgraph(op.id, tuple(rounding_ops[op.id].inputs), (op.outputs[0].name,))
        for op in variants
    ]
    graph = graph_of(source, variants, inputs_of(rounding_ops.values()))
    with closing(opened(graph)) as executor:
        results = executor.run_subgraphs(
            pieces, lambda piece: fed(rounding_ops[piece.key]), memory=memory
        )
        return frozenset(
            TensorRef(result.key, 0)
            for result in results
            if any(_allowed(rounding_ops[result.key], value) for value in result.values.values())
        )


def _allowed(lone: LoneOp, value: Array) -> bool:
    device = lone.outputs[0].read()
    if isinstance(device, Unread) or device.size != value.size:
        return False
    attrs = lone.op.attrs
    offset, mode = attrs.get("offset", 0.0), str(attrs.get("round_mode", "Round"))
    before = value.astype(np.float64).reshape(-1)
    product = before - (offset if isinstance(offset, int | float) else 0.0)
    # The scale, the product and the sum are each rounded to a half.
    off = _HALF * (2 * np.abs(product) + np.abs(before))
    before = np.clip(before, *_ENDS)
    below, above = _reach(mode, before)
    after = device.reshape(-1).astype(np.float64)
    return bool(((after >= before - below - off) & (after <= before + above + off)).all())


def _reach(mode: str, before: Array) -> tuple[Array | float, Array | float]:
    """How far rounding moves values down and up at most."""
    if mode == "Floor":
        return 1.0, 0.0
    if mode.startswith("Ceil"):
        return 0.0, 1.0
    if mode.startswith("Trunc"):
        return (before > 0).astype(np.float64), (before < 0).astype(np.float64)
    return 0.5, 0.5
