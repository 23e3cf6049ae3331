"""The gradients of recurrent cells, from what the cells gave out on the way forward
(core/kernels/rnn/lstm_ops.h, core/kernels/rnn/gru_ops.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.recurrent.cells import GATES, GATES_OF_V2
from divergraph.execute.translate.tensorflow.rows.table import RECURRENT, ROWS


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a cell was given and gave in one turn."""

    cell_before: str
    i: str
    cell: str
    f: str
    o: str
    new: str
    shown: str


@dataclass(frozen=True, slots=True)
class _TurnGradients:
    """Of the cell before, of all gates side by side, and of each gate that looks at the cell."""

    cell_before: str
    gates: str
    i: str
    f: str
    o: str


def _of_sigmoid(p: Piece, output: str, *factors: str) -> str:
    """The gradient of what went into a sigmoid that gave *output*."""
    slope = p.add("Mul", p.add("Sub", p.number(1, 1), output), output)
    for factor in factors:
        slope = p.add("Mul", slope, factor)
    return slope


def _of_tanh(p: Piece, output: str, *factors: str) -> str:
    slope = p.add("Sub", p.number(1, 1), p.add("Mul", output, output))
    for factor in factors:
        slope = p.add("Mul", slope, factor)
    return slope


def _back(
    p: Piece,
    turn: _Turn,
    peeps: Sequence[str],
    cell_gradient: str,
    gradient: str,
    gates: Sequence[str],
) -> _TurnGradients:
    """One turn of an LSTM backwards; a cell that was clipped passes gradients all the same."""
    sees = bool(p.attr("use_peephole", False))
    peep_i, peep_f, peep_o = peeps
    o = _of_sigmoid(p, turn.o, gradient, turn.shown)
    cell = p.add("Add", _of_tanh(p, turn.shown, gradient, turn.o), cell_gradient)
    if sees:
        cell = p.add("Add", cell, p.add("Mul", o, peep_o))
    new = _of_tanh(p, turn.new, cell, turn.i)
    f = _of_sigmoid(p, turn.f, cell, turn.cell_before)
    i = _of_sigmoid(p, turn.i, cell, turn.new)
    before = p.add("Mul", cell, turn.f)
    if sees:
        before = p.add("Add", before, p.add("Mul", i, peep_i))
        before = p.add("Add", before, p.add("Mul", f, peep_f))
    by_gate = {"i": i, "c": new, "f": f, "o": o}
    side_by_side = p.add("Concat", *(by_gate[gate] for gate in gates), axis=1)
    return _TurnGradients(before, side_by_side, i, f, o)


def _of_peeps(p: Piece, turns: Sequence[tuple[_Turn, _TurnGradients]]) -> list[str]:
    """The gradients of the three weights that let gates see the cell; zeros if they do not."""
    if not p.attr("use_peephole", False) or not turns:
        shape = p.shape(4 if p.op.type == "LSTMBlockCellGrad" else 5)
        return [p.const(np.zeros(shape, p.dtype(1)))] * 3
    sums: list[list[str]] = [[], [], []]
    for turn, back in turns:
        seen = ((back.i, turn.cell_before), (back.f, turn.cell_before), (back.o, turn.cell))
        for sum_of_gate, (gate, cell) in zip(sums, seen, strict=True):
            sum_of_gate.append(p.add("Mul", gate, cell))
    return [p.summed("ReduceSum", p.add("Concat", *terms, axis=0), (0,)) for terms in sums]


@ROWS.row("LSTMBlockCellGrad", source=RECURRENT)
def lstm_cell_grad(p: Piece) -> Sequence[str]:
    """One turn of an LSTM backwards: of the cell before, of the gates, of the weights that see
    the cell."""
    _, cell_before, _, _, *peeps = p.names[:7]
    turn = _Turn(cell_before, *p.names[8:14])
    back = _back(p, turn, peeps, p.name(14), p.name(15), GATES)
    return [back.cell_before, back.gates, *_of_peeps(p, [(turn, back)])]


@ROWS.row("BlockLSTMGrad", "BlockLSTMGradV2", source=RECURRENT)
def lstm_grad(p: Piece) -> Sequence[str]:
    """All turns of an LSTM backwards; behind the longest sequence the inputs get zeros."""
    turns, batch, inner = p.shape(1)
    steps = min(max(p.integers(0)[0], 0), turns)
    x, first_cell, first_hidden, weights, *peeps = p.names[1:8]
    cells, hidden, cell_gradients, gradients = p.names[9:15], *p.names[15:18]
    gates = GATES_OF_V2 if p.op.type.endswith("V2") else GATES
    turned = p.transpose(weights, 1, 0)

    def of_turn(tensor: str, at: int) -> str:
        return p.add("Gather", tensor, p.const(np.array(at)), axis=0)

    cell_back = hidden_back = p.const(np.zeros(p.shape(2), p.dtype(1)))
    inputs, joined = [p.const(np.zeros((turns - steps, batch, inner), p.dtype(1)))], []
    turns_done: list[tuple[_Turn, _TurnGradients]] = []
    for at in reversed(range(steps)):
        turn = _Turn(
            of_turn(cells[1], at - 1) if at else first_cell, *(of_turn(cell, at) for cell in cells)
        )
        cell_gradient = p.add("Add", of_turn(cell_gradients, at), cell_back)
        gradient = p.add("Add", of_turn(gradients, at), hidden_back)
        back = _back(p, turn, peeps, cell_gradient, gradient, gates)
        cell_back = back.cell_before
        of_input, hidden_back = _parted(p, p.add("MatMul", back.gates, turned), inner)
        inputs.append(p.add("Unsqueeze", of_input, p.ints(0)))
        before = of_turn(hidden, at - 1) if at else first_hidden
        joined.append(p.add("Concat", of_turn(x, at), before, axis=1))
        turns_done.append((turn, back))
    of_x = p.add("Concat", *reversed(inputs), axis=0)
    of_gates = [back.gates for _, back in turns_done]
    of_weights, of_biases = _of_weights(p, joined, of_gates)
    return [of_x, cell_back, hidden_back, of_weights, *_of_peeps(p, turns_done), of_biases]


def _of_weights(p: Piece, joined: Sequence[str], gates: Sequence[str]) -> tuple[str, str]:
    """The gradients of the weights and biases of all turns together."""
    if not gates:
        return p.const(np.zeros(p.shape(4), p.dtype(1))), p.const(np.zeros(p.shape(8), p.dtype(1)))
    read, gradients = p.add("Concat", *joined, axis=0), p.add("Concat", *gates, axis=0)
    weights = p.add("MatMul", p.transpose(read, 1, 0), gradients)
    return weights, p.summed("ReduceSum", gradients, (0,))


def _parted(p: Piece, both: str, inner: int) -> tuple[str, str]:
    """What stands side by side for the input and for the hidden state, apart."""
    end = p.ints(np.iinfo(np.int64).max)
    first = p.add("Slice", both, p.ints(0), p.ints(inner), p.ints(1))
    return first, p.add("Slice", both, p.ints(inner), end, p.ints(1))


@ROWS.row("GRUBlockCellGrad", source=RECURRENT)
def gru_cell_grad(p: Piece) -> Sequence[str]:
    """One turn of a GRU backwards: of its input, of the state before, of the new values and of
    both gates before their functions."""
    _, hidden, gate_weights, weights, _, _, resets, updates, new, gradient = p.names
    inner = p.shape(0)[1]
    complement = p.add("Sub", p.number(1), updates)
    of_new = _of_tanh(p, new, gradient, complement)
    of_updates = _of_sigmoid(p, updates, gradient, p.add("Sub", hidden, new))
    through_new = p.add("MatMul", of_new, p.transpose(weights, 1, 0))
    x_by_new, reset_hidden = _parted(p, through_new, inner)
    of_resets = _of_sigmoid(p, resets, reset_hidden, hidden)
    of_gates = p.add("Concat", of_resets, of_updates, axis=1)
    through_gates = p.add("MatMul", of_gates, p.transpose(gate_weights, 1, 0))
    x_by_gates, hidden_by_gates = _parted(p, through_gates, inner)
    hidden_gradient = p.add(
        "Add", p.add("Mul", reset_hidden, resets), p.add("Mul", gradient, updates)
    )
    return [
        p.add("Add", x_by_new, x_by_gates),
        p.add("Add", hidden_gradient, hidden_by_gates),
        of_new,
        of_gates,
    ]
