"""Tensors that an op overwrote with its own output before they were dumped.

Runtimes compute activations in place, so the dump of a convolution may hold what the Relu behind
it made, or the last of several ops that the device computes as one. That shows only where both are
compared: the device has the same values twice, and they are far nearer to what is behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from divergraph.graphs.lineage import Lineage
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import (
    Comparison,
    LineageRule,
    ModelGraph,
    TensorIO,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DumpIndex

_NEARER = 0.9
"""How much of its distance from its own original is at most left to that of the reader: the noise
of fewer bits is in both, and may be more than what the reader changed."""
_ROUNDED = 1e-5
"""Distances up to this are of rounding in float32, whatever lies behind. Not more: the Tanh of
small values is next to them."""
_MOST = 16
"""Ops behind a tensor that are looked at: those that work in place one after the other, and the
parts of what is computed as one (Gelu has five). Bounds cost."""
_MEMORY = 1 << 28


def overwritten(
    lineage: Lineage, device: ModelGraph, comparisons: Iterable[Comparison], dump: DumpIndex
) -> dict[TensorRef, TensorMatch]:
    """By device output that was overwritten with what was computed of it, the match with what that
    should have been. Values are read only of outputs that are off where one behind is far less."""
    apart = {
        TensorRef(item.op, item.port): item.metrics.relative_euclidean_distance
        for item in comparisons
        if item.io is TensorIO.OUTPUT and item.metrics is not None
    }
    ends, made = set(device.outputs), _Made(device, dump)
    values = DumpedValues(dump, _MEMORY)
    found: dict[TensorRef, TensorMatch] = {}
    for ref, distance in apart.items():
        if not distance > _ROUNDED or ref in ends:
            continue
        behind = (each for each in _behind(ref, made) if each in apart)
        nearer = (each for each in behind if apart[each] < _NEARER * distance)
        nearest = min(
            (each for each in nearer if _is_same(values, ref, each)),
            key=lambda each: apart[each],
            default=None,
        )
        match = None if nearest is None else lineage.outputs.get(nearest)
        if isinstance(match, TensorMatch):
            found[ref] = replace(match, device=ref, rule=LineageRule.SAME_VALUES, confidence=0.98)
    return found


class _Made(dict[TensorRef, list[TensorRef]]):
    """By tensor, what is computed of it. An op whose inputs were dumped is left out: there it is
    known what was read."""

    def __init__(self, device: ModelGraph, dump: DumpIndex) -> None:
        super().__init__()
        self._readers = device.readers()
        self._dumped = {op for op, io, _ in dump.tensors if io is TensorIO.INPUT}

    def __missing__(self, ref: TensorRef) -> list[TensorRef]:
        users = (user for user in self._readers.get(ref, ()) if user.id not in self._dumped)
        self[ref] = made = [one for user in users for one in user.makes]
        return made


def _behind(ref: TensorRef, made: _Made) -> list[TensorRef]:
    """The first tensors that are computed of *ref*, the nearest first."""
    found = {ref: None}
    waiting = [ref]
    for each in waiting:  # it grows meanwhile
        more = [one for one in made[each] if one not in found]
        found.update(dict.fromkeys(more))
        waiting += more if len(found) <= _MOST else []
    return list(found)[1:]


def _is_same(values: DumpedValues, one: TensorRef, other: TensorRef) -> bool:
    """Whether the device has the very values of one tensor in the other, too."""
    left, right = values.of(one), values.of(other)
    if left is None or right is None or left.size != right.size:
        return False
    nan = left.dtype.kind == "f"
    return np.array_equal(left.reshape(-1), right.reshape(-1), equal_nan=nan)
