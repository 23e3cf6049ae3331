"""Cells of recurrent nets as one op each (core/ops/rnn_ops.cc says what they compute)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import RECURRENT, ROWS

GATES = ("i", "c", "f", "o")
"""The order of an LSTM's gates in its weights: enters, new, keeps, shows."""
GATES_OF_V2 = ("i", "f", "c", "o")


def _cell(
    p: Piece,
    x: Expr,
    cell: Expr,
    hidden: Expr,
    rest: Sequence[Expr],
    gates: Sequence[str],
    bias: float,
) -> list[Expr]:
    """One turn of an LSTM: i, cell, f, o, new, tanh of cell, hidden."""
    weights, peep_i, peep_f, peep_o, biases = rest
    joined = p.add("Concat", x, hidden, axis=1)
    gates_joined = joined @ weights + biases
    parts = dict(
        zip(gates, p.add_many("Split", 4, gates_joined, axis=1, num_outputs=4), strict=True)
    )
    if bias:
        parts["f"] = parts["f"] + bias

    def seen(gate: str, peep: Expr, state: Expr) -> Expr:
        value = parts[gate]
        if p.attr("use_peephole", False):
            value = value + state * peep
        return value.sigmoid()

    enters, keeps = seen("i", peep_i, cell), seen("f", peep_f, cell)
    new = parts["c"].tanh()
    cell = new * enters + cell * keeps
    clip = float(p.attr("cell_clip", 0.0 if p.op.type.endswith("V2") else 3.0))
    if clip > 0:
        cell = p.add("Clip", cell, -clip, clip)
    shows = seen("o", peep_o, cell)
    squashed = cell.tanh()
    return [enters, cell, keeps, shows, new, squashed, squashed * shows]


@ROWS.row("LSTMBlockCell", source=RECURRENT)
def lstm_cell(p: Piece) -> Outputs:
    """One turn of an LSTM."""
    x, cell, hidden, *rest = p.values()
    return _cell(p, x, cell, hidden, rest, GATES, float(p.attr("forget_bias", 1.0)))


@ROWS.row("BlockLSTM", "BlockLSTMV2", source=RECURRENT)
def lstm(p: Piece) -> Outputs:
    """All turns of an LSTM; zeros behind the longest sequence."""
    newer = p.op.type.endswith("V2")
    turns = p.shape(1)[0]
    steps = min(max(p.integers(0)[0], 0), turns)
    cell, hidden, *rest = p.values()[2:]
    gates = GATES_OF_V2 if newer else GATES
    bias = 0.0 if newer else float(p.attr("forget_bias", 1.0))
    turns_done: list[list[Expr]] = []
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
def gru_cell(p: Piece) -> Outputs:
    """One turn of a GRU: r, u, new, hidden."""
    x, hidden, gate_weights, weights, gate_bias, bias = (p.name(at) for at in range(6))
    joined = p.add("Concat", x, hidden, axis=1)
    gates = (joined @ gate_weights + gate_bias).sigmoid()
    resets, updates = p.add_many("Split", 2, gates, axis=1, num_outputs=2)
    joined = p.add("Concat", x, hidden * resets, axis=1)
    new = (joined @ weights + bias).tanh()
    new_hidden = updates * hidden + (1 - updates) * new
    return [resets, updates, new, new_hidden]


# The gradients of recurrent cells, from what the cells gave out on the way forward
# (core/kernels/rnn/lstm_ops.h, core/kernels/rnn/gru_ops.h).


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a cell was given and gave in one turn."""

    cell_before: Expr
    i: Expr
    cell: Expr
    f: Expr
    o: Expr
    new: Expr
    shown: Expr


@dataclass(frozen=True, slots=True)
class _TurnGradients:
    """Of the cell before, of all gates side by side, and of each gate that looks at the cell."""

    cell_before: Expr
    gates: Expr
    i: Expr
    f: Expr
    o: Expr


def _of_sigmoid(output: Expr, *factors: Expr) -> Expr:
    """The gradient of what went into a sigmoid that gave *output*."""
    slope = (1 - output) * output
    for factor in factors:
        slope = slope * factor
    return slope


def _of_tanh(output: Expr, *factors: Expr) -> Expr:
    slope = 1 - output * output
    for factor in factors:
        slope = slope * factor
    return slope


def _back(
    p: Piece,
    turn: _Turn,
    peeps: Sequence[Expr],
    cell_gradient: Expr,
    gradient: Expr,
    gates: Sequence[str],
) -> _TurnGradients:
    """One turn of an LSTM backwards; a cell that was clipped passes gradients all the same."""
    sees = bool(p.attr("use_peephole", False))
    peep_i, peep_f, peep_o = peeps
    o = _of_sigmoid(turn.o, gradient, turn.shown)
    cell = _of_tanh(turn.shown, gradient, turn.o) + cell_gradient
    if sees:
        cell = cell + o * peep_o
    new = _of_tanh(turn.new, cell, turn.i)
    f = _of_sigmoid(turn.f, cell, turn.cell_before)
    i = _of_sigmoid(turn.i, cell, turn.new)
    before = cell * turn.f
    if sees:
        before = before + i * peep_i
        before = before + f * peep_f
    by_gate = {"i": i, "c": new, "f": f, "o": o}
    side_by_side = p.add("Concat", *(by_gate[gate] for gate in gates), axis=1)
    return _TurnGradients(before, side_by_side, i, f, o)


def _of_peeps(p: Piece, turns: Sequence[tuple[_Turn, _TurnGradients]]) -> list[Expr]:
    """The gradients of the three weights that let gates see the cell; zeros if they do not."""
    if not p.attr("use_peephole", False) or not turns:
        shape = p.shape(4 if p.op.type == "LSTMBlockCellGrad" else 5)
        return [p.const(np.zeros(shape, p.dtype(1)))] * 3
    sums: list[list[Expr]] = [[], [], []]
    for turn, back in turns:
        seen = ((back.i, turn.cell_before), (back.f, turn.cell_before), (back.o, turn.cell))
        for sum_of_gate, (gate, cell) in zip(sums, seen, strict=True):
            sum_of_gate.append(gate * cell)
    return [p.summed("ReduceSum", p.add("Concat", *terms, axis=0), (0,)) for terms in sums]


@ROWS.row("LSTMBlockCellGrad", source=RECURRENT)
def lstm_cell_grad(p: Piece) -> Outputs:
    """One turn of an LSTM backwards: of the cell before, of the gates, of the weights that see
    the cell."""
    _, cell_before, _, _, *peeps = p.values()[:7]
    turn = _Turn(cell_before, *p.values()[8:14])
    back = _back(p, turn, peeps, p.name(14), p.name(15), GATES)
    return [back.cell_before, back.gates, *_of_peeps(p, [(turn, back)])]


@ROWS.row("BlockLSTMGrad", "BlockLSTMGradV2", source=RECURRENT)
def lstm_grad(p: Piece) -> Outputs:
    """All turns of an LSTM backwards; behind the longest sequence the inputs get zeros."""
    turns, batch, inner = p.shape(1)
    steps = min(max(p.integers(0)[0], 0), turns)
    x, first_cell, first_hidden, weights, *peeps = p.values()[1:8]
    cells, hidden, cell_gradients, gradients = p.values()[9:15], *p.values()[15:18]
    gates = GATES_OF_V2 if p.op.type.endswith("V2") else GATES
    turned = p.transpose(weights, 1, 0)

    def of_turn(tensor: Expr, at: int) -> Expr:
        return p.add("Gather", tensor, p.const(np.array(at)), axis=0)

    cell_back = hidden_back = p.const(np.zeros(p.shape(2), p.dtype(1)))
    inputs, joined = [p.const(np.zeros((turns - steps, batch, inner), p.dtype(1)))], []
    turns_done: list[tuple[_Turn, _TurnGradients]] = []
    for at in reversed(range(steps)):
        turn = _Turn(
            of_turn(cells[1], at - 1) if at else first_cell, *(of_turn(cell, at) for cell in cells)
        )
        cell_gradient = of_turn(cell_gradients, at) + cell_back
        gradient = of_turn(gradients, at) + hidden_back
        back = _back(p, turn, peeps, cell_gradient, gradient, gates)
        cell_back = back.cell_before
        of_input, hidden_back = _parted(p, back.gates @ turned, inner)
        inputs.append(p.add("Unsqueeze", of_input, p.ints(0)))
        before = of_turn(hidden, at - 1) if at else first_hidden
        joined.append(p.add("Concat", of_turn(x, at), before, axis=1))
        turns_done.append((turn, back))
    of_x = p.add("Concat", *reversed(inputs), axis=0)
    of_gates = [back.gates for _, back in turns_done]
    of_weights, of_biases = _of_weights(p, joined, of_gates)
    return [of_x, cell_back, hidden_back, of_weights, *_of_peeps(p, turns_done), of_biases]


def _of_weights(p: Piece, joined: Sequence[Expr], gates: Sequence[Expr]) -> tuple[Expr, Expr]:
    """The gradients of the weights and biases of all turns together."""
    if not gates:
        return p.const(np.zeros(p.shape(4), p.dtype(1))), p.const(np.zeros(p.shape(8), p.dtype(1)))
    read, gradients = p.add("Concat", *joined, axis=0), p.add("Concat", *gates, axis=0)
    weights = p.transpose(read, 1, 0) @ gradients
    return weights, p.summed("ReduceSum", gradients, (0,))


def _parted(p: Piece, both: Expr, inner: int) -> tuple[Expr, Expr]:
    """What stands side by side for the input and for the hidden state, apart."""
    end = p.ints(np.iinfo(np.int64).max)
    first = p.add("Slice", both, p.ints(0), p.ints(inner), p.ints(1))
    return first, p.add("Slice", both, p.ints(inner), end, p.ints(1))


@ROWS.row("GRUBlockCellGrad", source=RECURRENT)
def gru_cell_grad(p: Piece) -> Outputs:
    """One turn of a GRU backwards: of its input, of the state before, of the new values and of
    both gates before their functions."""
    _, hidden, gate_weights, weights, _, _, resets, updates, new, gradient = p.values()
    inner = p.shape(0)[1]
    of_new = _of_tanh(new, gradient, 1 - updates)
    of_updates = _of_sigmoid(updates, gradient, hidden - new)
    through_new = of_new @ p.transpose(weights, 1, 0)
    x_by_new, reset_hidden = _parted(p, through_new, inner)
    of_resets = _of_sigmoid(resets, reset_hidden, hidden)
    of_gates = p.add("Concat", of_resets, of_updates, axis=1)
    through_gates = of_gates @ p.transpose(gate_weights, 1, 0)
    x_by_gates, hidden_by_gates = _parted(p, through_gates, inner)
    hidden_gradient = reset_hidden * resets + gradient * updates
    return [
        x_by_new + x_by_gates,
        hidden_gradient + hidden_by_gates,
        of_new,
        of_gates,
    ]
