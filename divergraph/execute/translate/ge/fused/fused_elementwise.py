"""Kernels fused of elementwise ops alone: ``te_fused_op_abs_mul_mul_add_`` and two hashes.

The name has the ops in the order in which they run, and the kernel's inputs are those that its ops
take from outside, in the same order. So each op takes the next ones of these inputs, or results of
ops before it that nobody has taken yet; the last result is the kernel's. What is left open by that
are few ways, and each is a reading of the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.elementwise import alike
from divergraph.execute.translate.ge.fused.chains import FUSED
from divergraph.execute.translate.ge.table import ROWS
from divergraph.execute.translate.piece import Piece

STEPS = "_fused_steps"
"""The attribute that lists the ops of a kernel with their operands: ``Mul 1 r0`` multiplies input 1
by the first result."""
_MOST = 64
"""Ways to read a kernel beyond which its name tells too little."""
_UNARY = {
    **{kind: kind for kind in ("Abs", "Neg", "Sqrt", "Reciprocal", "Sign", "Floor", "Ceil")},
    **{kind: kind for kind in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Exp", "Log")},
    **{kind: kind for kind in ("Sin", "Cos", "Erf")},
    **dict.fromkeys(("Square", "Rsqrt", "Relu6", "Cast"), ""),
}
_BINARY = {
    **{kind: kind for kind in ("Add", "Sub", "Mul", "Div", "Pow")},
    "AddV2": "Add",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "SquaredDifference": "",
}
_EITHER_WAY = frozenset(("Add", "AddV2", "Mul", "Maximum", "Minimum", "SquaredDifference"))
ELEMENTWISE = frozenset((*_UNARY, *_BINARY))
"""The ops whose chains are read."""


def orders(kinds: Sequence[str], inputs: int) -> tuple[tuple[str, ...], ...]:
    """The ways in which ops of these *kinds* can take so many *inputs*, as lists of steps.

    Raises:
        NotTranslatedError: there are none, or too many.
    """
    all_orders: list[tuple[str, ...]] = []
    for order in _step_orders(tuple(kinds), 0, inputs, 0, ()):
        all_orders.append(order)
        if len(all_orders) > _MOST:
            break
    if not 0 < len(all_orders) <= _MOST:
        raise NotTranslatedError(f"fused of {', '.join(kinds)} in ways its graph does not tell")
    return tuple(all_orders)


def _step_orders(
    kinds: tuple[str, ...],
    used_inputs: int,
    inputs: int,
    results: int,
    free: tuple[str, ...],
) -> Iterator[tuple[str, ...]]:
    """Steps of the rest of *kinds*, after *used_inputs* of *inputs* and with *results* results
    of which *free* ones have not been read."""
    if not kinds:
        if used_inputs == inputs and len(free) == 1:
            yield ()
        return
    kind, *rest = kinds
    for operands in _operands(kind, used_inputs, inputs, free):
        used = sum(operand.isdecimal() for operand in operands)
        unused = tuple(result_name for result_name in free if result_name not in operands)
        result = f"r{results}"
        for following in _step_orders(
            tuple(rest), used_inputs + used, inputs, results + 1, (*unused, result)
        ):
            yield (" ".join((kind, *operands)), *following)


def _operands(
    kind: str, used_inputs: int, inputs: int, free: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    fresh = [str(at) for at in range(used_inputs, min(used_inputs + 2, inputs))]
    if kind in _UNARY:
        yield from ((result_name,) for result_name in (*fresh[:1], *free))
        return
    pairs = [(one, other) for one in (*fresh[:1], *free) for other in (*fresh[:1], *free)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if kind in _EITHER_WAY:
        pairs = [pair for pair in pairs if pair[0] < pair[1]]
    yield from pairs
    if len(fresh) == 2:
        yield fresh[0], fresh[1]


@ROWS.row(FUSED, source="CANN TBE: kernels are named after the ops they are fused of")
def _fused(piece: Piece) -> Sequence[str]:
    steps = piece.op.attrs.get(STEPS)
    if not isinstance(steps, tuple):
        raise NotTranslatedError("a fused kernel whose ops are not known")
    inputs = alike(piece, *range(len(piece)))
    results: list[str] = []
    for step in steps:
        kind, *operands = str(step).split()
        names = [results[int(o[1:])] if o.startswith("r") else inputs[int(o)] for o in operands]
        results.append(_step(piece, kind, names))
    return [results[-1]]


def _step(piece: Piece, kind: str, names: Sequence[str]) -> str:
    same = _UNARY.get(kind) or _BINARY.get(kind)
    if same:
        return piece.add(same, *names)
    if kind == "Square":
        return piece.add("Mul", names[0], names[0])
    if kind == "SquaredDifference":
        difference = piece.add("Sub", *names)
        return piece.add("Mul", difference, difference)
    if kind == "Rsqrt":
        return piece.add("Reciprocal", piece.add("Sqrt", names[0]))
    if kind == "Relu6":
        return piece.add("Clip", names[0], piece.number(0.0), np.array(6, piece.dtype()))
    return names[0]  # a cast within a kernel changes the rounding, which is the device's arithmetic
