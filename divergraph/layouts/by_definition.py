"""What calls between ranks are to make, where golden's run has no such call.

A run of one rank, or of ranks in another layout, has no counterpart of what is exchanged, as of the
shards of a flat gradient or of the rows that experts are sent. But what a rank gets follows from
what all ranks gave: golden's tensors where all of these are known, else the device's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from divergraph.execute.translate.torch.received import (
    BetweenRanks,
    GivenPart,
    NotReceivedError,
    Received,
)
from divergraph.text.words import counted
from graphstore.model import (
    DumpTensorRef,
    ModelGraph,
    Op,
    Shape,
    TensorCut,
    TensorIO,
    TensorJoin,
    TensorReduction,
)
from importers.dumps.index import TensorKey
from importers.msprobe.job_names import RANKS

_Tensors = Mapping[TensorKey, DumpTensorRef]
_OPERATIONS = ("SUM", "AVG", "PRODUCT", "MAX", "MIN")


@dataclass(frozen=True, slots=True)
class ByDefinition:
    """The ``tensors`` of calls between ranks that follow from what these gave; ``of_device`` are
    the outputs that follow from what the device's ranks gave, by call."""

    tensors: _Tensors
    of_device: Mapping[str, tuple[int, ...]]

    def sentence(self) -> str:
        """What the calls are held against, as a line for the user; empty where there are none."""
        if not self.of_device:
            return ""
        calls = counted(len(self.of_device), "call")
        return (
            f"golden has no counterpart of {calls} between ranks: what they give is held against "
            "what all ranks gave them"
        )


def by_definition(job: ModelGraph, golden: _Tensors, device: _Tensors) -> ByDefinition:
    """What the calls between the ranks of *job* are to give where the *golden* tensors lack it;
    *device* has what the job dumped."""
    tensors: dict[TensorKey, DumpTensorRef] = {}
    of_device: dict[str, tuple[int, ...]] = {}
    for op in job.ops:
        keys = [(op.id, TensorIO.OUTPUT, ref.port) for ref in op.makes if RANKS in op.attrs]
        lacking = [key for key in keys if key not in golden and key in device]
        if not lacking:
            continue
        for side in (golden, device):
            made = _made(op, side, device, lacking)
            if made:
                tensors.update(made)
                if side is device:
                    of_device[op.id] = tuple(port for _, _, port in made)
                break
    return ByDefinition(tensors, of_device)


def _made(
    op: Op, given: _Tensors, device: _Tensors, wanted: Sequence[TensorKey]
) -> dict[TensorKey, DumpTensorRef]:
    """The *wanted* outputs of *op* as they follow from what was *given*; none where that lacks a
    tensor, or has one of another shape than the device's."""

    def shape(port: int) -> Shape | None:
        ref = given.get((op.id, TensorIO.INPUT, port))
        return None if ref is None else ref.shape

    begin = len(f"{op.name}.output.")
    made: dict[TensorKey, DumpTensorRef] = {}
    try:
        between = BetweenRanks(op, shape)
        for key in wanted:
            received = between.received(op.outputs[key[2]].name[begin:])
            refs = [_part(op, part, given, device) for part in received.parts]
            known = [ref for ref in refs if ref is not None]
            if not known or len(known) < len(refs):
                return {}
            ref = _joined(known, received)
            if ref is None:
                return {}
            made[key] = ref
    except NotReceivedError:  # nor does anything run such a call again, which the coverage says
        return {}
    return made


def _part(op: Op, part: GivenPart, given: _Tensors, device: _Tensors) -> DumpTensorRef | None:
    key = op.id, TensorIO.INPUT, part.port
    ref, own = given.get(key), device.get(key)
    if ref is None or own is None or ref.statistics is not None or ref.shape != own.shape:
        return None
    if part.rows is None or not ref.shape:
        return ref
    start, stop = part.rows
    return _derived(ref, (stop - start, *ref.shape[1:]), TensorCut(ref, ((0, (part.rows,)),)))


def _joined(refs: Sequence[DumpTensorRef], received: Received) -> DumpTensorRef | None:
    first, shapes = refs[0], {ref.shape for ref in refs}
    if received.reduction:
        if received.reduction not in _OPERATIONS or len(shapes) > 1:
            return None
        reduction = TensorReduction(tuple(refs), received.reduction)
        return _derived(first, first.shape or (), reduction)
    if len(refs) == 1:
        return first
    if not first.shape or len({(shape or ())[1:] for shape in shapes}) > 1:
        return None
    length = sum((ref.shape or (0,))[0] for ref in refs)
    return _derived(first, (length, *first.shape[1:]), TensorJoin(tuple(refs), 0))


def _derived(
    like: DumpTensorRef, shape: tuple[int, ...], how: TensorCut | TensorJoin | TensorReduction
) -> DumpTensorRef:
    size = like.nbytes // max(prod(like.shape or ()), 1) * prod(shape)
    return replace(like, shape=shape, nbytes=size, offset=0, crc32=None, derived=how)
