"""Sums of float32 numbers that were added one after another, to one sum.

Each number is rounded to the last place of the sum so far. What lies below is lost, always to the
same side where all numbers are positive: a Softmax over ten thousand places that are next to
nothing beside one is off by 1e-4, the same in each of its values. ONNX Runtime and most other
runtimes keep several sums side by side and lose nothing that shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import Op

_SOFTMAX = frozenset({"Softmax", "LogSoftmax"})
_SUMS = frozenset({"ReduceSum", "Sum", "ReduceMean", "Mean", "GlobalAveragePool"})
_SAME = 1e-2
"""The relative difference of two sums of the same numbers is below, that of sums over other axes
above."""

_BLOCK = 256
"""Numbers that are added at once. Bounds memory."""


def sums_in_turn(op: Op) -> bool:
    """Whether *op* is of a type that adds up what it is given."""
    return op.type in _SOFTMAX | _SUMS and len(op.inputs) > 0


def in_turn(op: Op, feeds: Mapping[str, Array], output: Array) -> Array | None:
    """What *op* makes of *feeds* (arrays by tensor name) with sums one after another, in float32,
    where an executor *output* the same but for rounding; None for other ops, and where it is not
    known over which axes they go."""
    x = feeds.get(op.inputs[0].tensor) if sums_in_turn(op) and op.inputs[0] is not None else None
    if x is None or x.dtype != np.float32 or output.dtype != np.float32 or not output.size:
        return None
    for axes in _axes(op, x, output):
        added = _softmax(op, x, axes) if op.type in _SOFTMAX else _sum(op, x, axes)
        with np.errstate(all="ignore"):
            off = np.linalg.norm(added.reshape(-1) - output.reshape(-1))
        if off <= _SAME * np.linalg.norm(output):
            return added.reshape(output.shape)
    return None


def _axes(op: Op, x: Array, output: Array) -> list[tuple[int, ...]]:
    """The axes the sums may go along: which of them is tried out."""
    if op.type in _SOFTMAX:
        axis = op.attrs.get("axis", -1)
        axis = axis % x.ndim if isinstance(axis, int) and x.ndim else -1
        # Softmax goes along one axis, that of old ONNX along all behind it.
        return list(dict.fromkeys([(axis,), tuple(range(max(axis, 0), x.ndim)), (x.ndim - 1,)]))
    if output.ndim == x.ndim:
        return [tuple(n for n in range(x.ndim) if output.shape[n] == 1)]
    return [
        tuple(range(start, end))
        for start in range(x.ndim)
        for end in range(start + 1, x.ndim + 1)
        if math.prod(x.shape[start:end]) * output.size == x.size
    ]


def _added(x: Array, axes: tuple[int, ...]) -> Array:
    """The sums of *x* along *axes*, which stay with one element."""
    others = tuple(n for n in range(x.ndim) if n not in axes)
    rows = np.transpose(x, (*axes, *others)).reshape(-1, *(x.shape[n] for n in others))
    total = np.zeros(rows.shape[1:], np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), _BLOCK):
            block = np.concatenate([total[None], rows[start : start + _BLOCK]])
            total = np.add.accumulate(block, axis=0, dtype=np.float32)[-1]
    return total.reshape([1 if n in axes else size for n, size in enumerate(x.shape)])


def _softmax(op: Op, x: Array, axes: tuple[int, ...]) -> Array:
    with np.errstate(all="ignore"):
        moved = x - np.max(x, axes, keepdims=True)
        powers = np.exp(moved)
        total = _added(powers, axes)
        return np.asarray(moved - np.log(total) if op.type == "LogSoftmax" else powers / total)


def _sum(op: Op, x: Array, axes: tuple[int, ...]) -> Array:
    if op.type == "GlobalAveragePool":
        axes = tuple(range(2, x.ndim))
    total = _added(x, axes)
    if op.type in ("ReduceMean", "Mean", "GlobalAveragePool"):
        total = total / np.float32(math.prod(x.shape[n] for n in axes))
    return np.asarray(total)
