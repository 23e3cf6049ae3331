"""Calls between ranks, run again on what all ranks gave them."""

from __future__ import annotations

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.alone import GIVES
from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.received import (
    FLOWS,
    BetweenRanks,
    GivenPart,
    NotReceivedError,
    Received,
    texts,
)

_REDUCTIONS = {"SUM": "Sum", "AVG": "Mean", "PRODUCT": "Mul", "MAX": "Max", "MIN": "Min"}


@row(*sorted(FLOWS), source="torch.distributed")
def _between(call: TorchCall) -> Outputs:
    try:
        between = BetweenRanks(call.piece.op, call.piece.shape)
        places = texts(call.piece.op.attrs.get(GIVES))
        return [call.add("Identity", _received(call, between.received(place))) for place in places]
    except NotReceivedError as error:
        raise call.refused(str(error)) from error


def _received(call: TorchCall, received: Received) -> Expr:
    tensors = [_part(call, part) for part in received.parts]
    if not received.reduction:
        return call.add("Concat", *tensors, axis=0) if len(tensors) > 1 else tensors[0]
    kind = _REDUCTIONS.get(received.reduction)
    if kind is None:
        raise call.refused(f"with the operation {received.reduction}")
    if kind != "Mul":
        return call.add(kind, *tensors)
    product, *others = tensors
    for other in others:
        product = call.add(kind, product, other)
    return product


def _part(call: TorchCall, part: GivenPart) -> Expr:
    name, piece = call.piece.name(part.port), call.piece
    if part.rows is None:
        return name
    begin, end = part.rows
    return call.add("Slice", name, piece.ints(begin), piece.ints(end), piece.ints(0))
