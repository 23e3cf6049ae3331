"""Tensors that an op overwrote with its own output before they were dumped.

Runtimes compute activations in place, so the dump of a convolution may hold what the Relu behind
it made. That shows only where both are compared: the device has the same values twice, and they
are far nearer to what the reader should have made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from divergraph.graphs.lineage import Lineage
from divergraph.values.closeness import AS_IT_LIES
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import (
    Comparison,
    LineageRule,
    ModelGraph,
    Op,
    TensorIO,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DumpIndex

_NEARER = 0.5
"""How much of its distance from its own original is left to that of the reader."""
_MOST = 6
"""The longest chain of ops that work in place one after the other."""
_MEMORY = 1 << 28


def overwritten(
    lineage: Lineage, device: ModelGraph, comparisons: Iterable[Comparison], dump: DumpIndex
) -> dict[TensorRef, TensorMatch]:
    """By device output that a reader overwrote, the match with what that reader should have made.
    Values are read only of outputs that are far off though a reader of theirs is not."""
    apart = {
        TensorRef(item.op, item.port): item.metrics.relative_euclidean_distance
        for item in comparisons
        if item.io is TensorIO.OUTPUT and item.metrics is not None
    }
    ends, readers = set(device.outputs), device.readers()
    values = DumpedValues(dump, _MEMORY)
    found: dict[TensorRef, TensorMatch] = {}
    for ref, distance in apart.items():
        if not distance > AS_IT_LIES or ref in ends:
            continue
        chain = _in_place(ref, readers, dump, values)
        nearest = min(
            (each for each in chain if apart.get(each, math.inf) < _NEARER * distance),
            key=lambda each: apart[each],
            default=None,
        )
        match = None if nearest is None else lineage.outputs.get(nearest)
        if isinstance(match, TensorMatch):
            found[ref] = replace(match, device=ref, rule=LineageRule.SAME_VALUES, confidence=0.98)
    return found


def _in_place(
    ref: TensorRef,
    readers: Mapping[TensorRef, list[Op]],
    dump: DumpIndex,
    values: DumpedValues,
) -> Iterator[TensorRef]:
    """The tensors, each computed from the one before alone, that hold the very values of *ref*."""
    own = None
    for _ in range(_MOST):
        users = {op.id: op for op in readers.get(ref, ())}
        if len(users) != 1:
            return
        (user,) = users.values()
        if len(user.makes) != 1 or _has_inputs(user, dump):
            return
        own = values.of(ref) if own is None else own
        ref = user.makes[0]
        made = values.of(ref)
        if own is None or made is None or own.size != made.size:
            return
        if not np.array_equal(own.reshape(-1), made.reshape(-1), equal_nan=own.dtype.kind == "f"):
            return
        yield ref


def _has_inputs(op: Op, dump: DumpIndex) -> bool:
    """Whether what *op* read was dumped as well: then it is known what it was."""
    return any((op.id, TensorIO.INPUT, port) in dump.tensors for port in range(len(op.inputs)))
