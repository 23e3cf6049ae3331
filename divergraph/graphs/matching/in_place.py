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
from graphstore.model import Comparison, LineageRule, ModelGraph, TensorIO, TensorMatch, TensorRef
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
    distances = {
        TensorRef(item.op, item.port): item.metrics.relative_euclidean_distance
        for item in comparisons
        if item.io is TensorIO.OUTPUT and item.metrics is not None
    }
    ends, users_outputs = set(device.outputs), _Made(device, dump)
    values = DumpedValues(dump, _MEMORY)
    overwriting: dict[TensorRef, TensorMatch] = {}
    for ref, distance in distances.items():
        if not distance > _ROUNDED or ref in ends:
            continue
        candidates = (
            ref_after for ref_after in _tensors_after(ref, users_outputs) if ref_after in distances
        )
        nearer = (
            ref_after for ref_after in candidates if distances[ref_after] < _NEARER * distance
        )
        nearest = min(
            (ref_after for ref_after in nearer if _is_same(values, ref, ref_after)),
            key=lambda ref_after: distances[ref_after],
            default=None,
        )
        match = None if nearest is None else lineage.outputs.get(nearest)
        if isinstance(match, TensorMatch):
            overwriting[ref] = replace(
                match, device=ref, rule=LineageRule.SAME_VALUES, confidence=0.98
            )
    return overwriting


class _Made(dict[TensorRef, list[TensorRef]]):
    """By tensor, what is computed of it. An op whose inputs were dumped is left out: there it is
    known what was read."""

    def __init__(self, device: ModelGraph, dump: DumpIndex) -> None:
        super().__init__()
        self._readers = device.readers()
        self._dumped = {op for op, io, _ in dump.tensors if io is TensorIO.INPUT}

    def __missing__(self, ref: TensorRef) -> list[TensorRef]:
        users = (user for user in self._readers.get(ref, ()) if user.id not in self._dumped)
        self[ref] = outputs_after = [one for user in users for one in user.makes]
        return outputs_after


def _tensors_after(ref: TensorRef, users_outputs: _Made) -> list[TensorRef]:
    """The first tensors that are computed of *ref*, the nearest first."""
    refs_reached = {ref: None}
    waiting = [ref]
    for current in waiting:  # it grows meanwhile
        more = [one for one in users_outputs[current] if one not in refs_reached]
        refs_reached.update(dict.fromkeys(more))
        waiting += more if len(refs_reached) <= _MOST else []
    return list(refs_reached)[1:]


def _is_same(values: DumpedValues, one: TensorRef, other: TensorRef) -> bool:
    """Whether the device has the very values of one tensor in the other, too."""
    values_of_one, right = values.of(one), values.of(other)
    if values_of_one is None or right is None or values_of_one.size != right.size:
        return False
    nan = values_of_one.dtype.kind == "f"
    return np.array_equal(values_of_one.reshape(-1), right.reshape(-1), equal_nan=nan)
