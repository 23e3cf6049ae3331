"""What a device's model was fed, where the dump of its ops holds it.

A device runs no task for an input, so it has no dump of its own; but what reads it may have dumped
its inputs, or, where it only moves them, its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from graphstore.model import DumpTensorRef, ModelGraph, Op, TensorIO, TensorRef
from importers.dumps.index import DumpIndex

_MOVES = frozenset({"Cast", "TransData", "Identity", "Reshape"})
"""Ops that hand a value on as it is, or rounded: what follows them is the input still."""
_GIVEN = re.compile(r"Const|Variable|VarHandleOp")
_PREPROCESSES = "Aipp"


def with_model_inputs(index: DumpIndex, graph: ModelGraph) -> DumpIndex:
    """*index* of a device's dump with the inputs of its *graph* that it holds.

    They go by the op that brings them in, and by its originals. Of an image that the device
    preprocesses (AIPP) what that makes of it is taken: that is what the original model is fed.
    """
    readers = graph.readers()
    graph_inputs = dict(index.graph_inputs)
    for op in graph.ops:
        if op.subgraph or op.takes or not op.outputs or _GIVEN.match(op.type):
            continue
        names = {op.name, *(op.original_names or ())} - graph_inputs.keys()
        ref = _dumped(_fed(op, readers), index, readers) if names else None
        if ref is not None:
            graph_inputs |= dict.fromkeys(names, ref)
    return replace(index, graph_inputs=graph_inputs)


def _fed(op: Op, readers: Mapping[TensorRef, list[Op]]) -> Op:
    """The op that puts out what the network itself reads of the input *op*."""
    reader_ops = readers.get(TensorRef(op.id, 0), ())
    return next(
        (
            op_reader
            for op_reader in reader_ops
            if op_reader.type == _PREPROCESSES and op_reader.outputs
        ),
        op,
    )


def _dumped(
    op: Op, index: DumpIndex, readers: Mapping[TensorRef, list[Op]]
) -> DumpTensorRef | None:
    """Where the dump holds the first output of *op*; in device blocks only where it must be."""
    places = list(_places(op, index, readers))
    plain = (ref for ref in places if ref.original_shape in (None, ref.shape))
    ref = next(plain, places[0] if places else None)
    origin = op.outputs[0].origin
    if ref is not None and ref.original_shape is None and origin is not None and origin.shape:
        sizes = tuple(size for size in origin.shape if size is not None)
        if len(sizes) == len(origin.shape):
            return replace(ref, original_shape=sizes)
    return ref


def _places(
    op: Op, index: DumpIndex, readers: Mapping[TensorRef, list[Op]]
) -> Iterator[DumpTensorRef]:
    """Itself, inputs of what reads it, the same after ops that move it; the nearest first."""
    seen: set[str] = set()
    waiting = [op]
    while waiting:
        maker = waiting.pop(0)
        if maker.id in seen:
            continue
        seen.add(maker.id)
        at = TensorRef(maker.id, 0)
        own = index.tensors.get((maker.id, TensorIO.OUTPUT, 0))
        if own is not None:
            yield own
        for reader in readers.get(at, ()):
            for position, op_input in enumerate(reader.inputs):
                if op_input is not None and op_input.producer == at:
                    ref = index.tensors.get((reader.id, TensorIO.INPUT, position))
                    if ref is not None:
                        yield ref
            if reader.type in _MOVES:
                waiting.append(reader)
