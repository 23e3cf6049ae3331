"""Rows of recurrent layers. PyTorch's gates stand in another order than those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row


@dataclass(frozen=True, slots=True)
class _Cell:
    """A kind of layer in ONNX: ``order`` has the places of its gates in PyTorch."""

    kind: str
    order: tuple[int, ...]
    activation: str = ""
    states: int = 1


_CELLS: Mapping[str, _Cell] = {
    "lstm": _Cell("LSTM", (0, 3, 1, 2), states=2),
    "gru": _Cell("GRU", (1, 0, 2)),
    "rnn_tanh": _Cell("RNN", (0,), "Tanh"),
    "rnn_relu": _Cell("RNN", (0,), "Relu"),
}


@row(*_CELLS, source="torch.nn.LSTM")
def _recurrent(call: TorchCall) -> Outputs:
    """``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first)``: a node for each layer, whose directions are joined in their last axis."""
    cell = _CELLS[call.type]
    params = call.tensors(2, "params")
    layers, directions = call.integer(4, "num_layers"), 1 + call.flag(7, "bidirectional")
    several = 4 if call.flag(3, "has_biases") else 2
    if len(params) != several * layers * directions:
        raise call.refused("has packed sequences or a projection")
    if call.flag(6, "train") and call.number(5, "dropout") > 0.0 and layers > 1:
        raise call.refused("draws random numbers")
    value = call.tensor()
    if len(call.shape()) != 3:
        raise call.refused("has no batch")
    batch_first = call.flag(8, "batch_first")
    if batch_first:
        value = call.piece.transpose(value, 1, 0, 2)
    begins = call.tensors(1, "hx") if cell.states > 1 else [call.tensor(1, "hx")]
    starts = [_layers_of(call, name, layers) for name in begins]
    ends: list[list[Expr]] = [[] for _ in range(cell.states)]
    for layer in range(layers):
        first = several * directions * layer
        weights = params[first : first + several * directions]
        begin = [of_layers[layer] for of_layers in starts]
        value, *states = _layer(call, cell, value, weights, begin, directions)
        for all_of, state in zip(ends, states, strict=True):
            all_of.append(state)
    if batch_first:
        value = call.piece.transpose(value, 1, 0, 2)
    return [value, *(call.add("Concat", *all_of, axis=0) for all_of in ends)]


def _layers_of(call: TorchCall, name: Expr, layers: int) -> list[Expr]:
    """The states of each layer, of all its directions."""
    if layers == 1:
        return [name]
    return list(call.piece.add_many("Split", layers, name, axis=0, num_outputs=layers))


def _layer(
    call: TorchCall,
    cell: _Cell,
    value: Expr,
    weights: Sequence[Expr],
    begin: Sequence[Expr],
    directions: int,
) -> list[Expr]:
    several = len(weights) // directions
    by_kind = [
        [_in_order(call, cell, weights[number + several * at]) for at in range(directions)]
        for number in range(several)
    ]
    first = call.piece.ints(0)
    joined = [
        call.add("Concat", *(call.add("Unsqueeze", one, first) for one in of_kind), axis=0)
        for of_kind in by_kind
    ]
    biases = call.add("Concat", *joined[2:], axis=1) if len(joined) > 2 else ""
    attrs: dict[str, Any] = {
        "hidden_size": call.shape("2.1", "params.1")[1],
        "direction": "bidirectional" if directions > 1 else "forward",
        "activations": [cell.activation] * directions if cell.activation else None,
        "linear_before_reset": 1 if cell.kind == "GRU" else None,
    }
    operands = (value, joined[0], joined[1], biases, "", *begin)
    made, *states = call.piece.add_many(cell.kind, 1 + cell.states, *operands, **attrs)
    # From [steps, directions, batch, features] to what the next layer reads.
    side_by_side = call.piece.transpose(made, 0, 2, 1, 3)
    flat = call.add("Reshape", side_by_side, np.array([0, 0, -1], np.int64))
    return [flat, *states]


def _in_order(call: TorchCall, cell: _Cell, name: Expr) -> Expr:
    """A weight or bias with its gates in the order of ONNX."""
    count = len(cell.order)
    if count == 1:
        return name
    gates = call.piece.add_many("Split", count, name, axis=0, num_outputs=count)
    return call.add("Concat", *(gates[at] for at in cell.order), axis=0)
