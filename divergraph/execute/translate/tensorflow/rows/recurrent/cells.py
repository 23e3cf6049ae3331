"""Cells of recurrent nets as one op each (core/ops/rnn_ops.cc says what they compute)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import RECURRENT, ROWS

GATES = ("i", "c", "f", "o")
"""The order of an LSTM's gates in its weights: enters, new, keeps, shows."""
GATES_OF_V2 = ("i", "f", "c", "o")


def _cell(
    p: Piece,
    x: str,
    cell: str,
    hidden: str,
    rest: Sequence[str],
    gates: Sequence[str],
    bias: float,
) -> list[str]:
    """One turn of an LSTM: i, cell, f, o, new, tanh of cell, hidden."""
    weights, peep_i, peep_f, peep_o, biases = rest
    joined = p.add("Concat", x, hidden, axis=1)
    gates_joined = p.add("Add", p.add("MatMul", joined, weights), biases)
    parts = dict(
        zip(gates, p.add_many("Split", 4, gates_joined, axis=1, num_outputs=4), strict=True)
    )
    if bias:
        parts["f"] = p.add("Add", parts["f"], p.number(bias, 1))

    def seen(gate: str, peep: str, state: str) -> str:
        value = parts[gate]
        if p.attr("use_peephole", False):
            value = p.add("Add", value, p.add("Mul", state, peep))
        return p.add("Sigmoid", value)

    enters, keeps = seen("i", peep_i, cell), seen("f", peep_f, cell)
    new = p.add("Tanh", parts["c"])
    cell = p.add("Add", p.add("Mul", new, enters), p.add("Mul", cell, keeps))
    clip = float(p.attr("cell_clip", 0.0 if p.op.type.endswith("V2") else 3.0))
    if clip > 0:
        cell = p.add("Clip", cell, p.number(-clip, 1), p.number(clip, 1))
    shows = seen("o", peep_o, cell)
    squashed = p.add("Tanh", cell)
    return [enters, cell, keeps, shows, new, squashed, p.add("Mul", squashed, shows)]


@ROWS.row("LSTMBlockCell", source=RECURRENT)
def lstm_cell(p: Piece) -> Sequence[str]:
    """One turn of an LSTM."""
    x, cell, hidden, *rest = p.names
    return _cell(p, x, cell, hidden, rest, GATES, float(p.attr("forget_bias", 1.0)))


@ROWS.row("BlockLSTM", "BlockLSTMV2", source=RECURRENT)
def lstm(p: Piece) -> Sequence[str]:
    """All turns of an LSTM; zeros behind the longest sequence."""
    newer = p.op.type.endswith("V2")
    turns = p.shape(1)[0]
    steps = min(max(p.integers(0)[0], 0), turns)
    cell, hidden, *rest = p.names[2:]
    gates = GATES_OF_V2 if newer else GATES
    bias = 0.0 if newer else float(p.attr("forget_bias", 1.0))
    turns_done: list[list[str]] = []
    for at in range(steps):
        x = p.add("Gather", p.name(1), p.const(np.array(at)), axis=0)
        turns_done.append(_cell(p, x, cell, hidden, rest, gates, bias))
        cell, hidden = turns_done[-1][1], turns_done[-1][6]
    shape = (turns - steps, *p.shape(2))
    zeros = p.const(np.zeros(shape, p.dtype(1)))
    columns = [
        [p.add("Unsqueeze", turn_outputs[port], p.ints(0)) for turn_outputs in turns_done] + [zeros]
        for port in range(7)
    ]
    return [p.add("Concat", *parts, axis=0) for parts in columns]


@ROWS.row("GRUBlockCell", source=RECURRENT)
def gru_cell(p: Piece) -> Sequence[str]:
    """One turn of a GRU: r, u, new, hidden."""
    x, hidden, gate_weights, weights, gate_bias, bias = (p.name(at) for at in range(6))
    joined = p.add("Concat", x, hidden, axis=1)
    gates = p.add("Sigmoid", p.add("Add", p.add("MatMul", joined, gate_weights), gate_bias))
    resets, updates = p.add_many("Split", 2, gates, axis=1, num_outputs=2)
    joined = p.add("Concat", x, p.add("Mul", hidden, resets), axis=1)
    new = p.add("Tanh", p.add("Add", p.add("MatMul", joined, weights), bias))
    complement = p.add("Sub", p.number(1), updates)
    new_hidden = p.add("Add", p.add("Mul", updates, hidden), p.add("Mul", complement, new))
    return [resets, updates, new, new_hidden]
