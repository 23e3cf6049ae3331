"""Numbers rounded to a grid in training, as if they were quantised.

Source: core/kernels/fake_quant_ops_functor.h: the range is moved so that 0 lies on the grid.
"""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, ROWS

_KINDS = ("Args", "Vars", "VarsPerChannel")


def _bounds(p: Piece, first: int) -> tuple[Expr, Expr]:
    """The smallest and the largest value, as attributes or as inputs from *first* on."""
    if "Args" in p.op.type:
        limits = (("min", -6.0), ("max", 6.0))
        low, high = (np.array(p.attr(name, usual), np.float32) for name, usual in limits)
        return p.const(low), p.const(high)
    return p.name(first), p.name(first + 1)


def _grid(p: Piece, first: int) -> tuple[Expr, Expr, Expr, Expr]:
    """The lowest and highest point, the step, and where a range is no range but 0 alone."""
    low, high = _bounds(p, first)
    lowest = float(bool(p.attr("narrow_range", False)))
    highest = float(2 ** int(p.attr("num_bits", 8)) - 1)
    steps = p.const(np.array(highest - lowest, np.float32))
    bottom, top = (p.const(np.array(limit, np.float32)) for limit in (lowest, highest))
    step = (high - low) / steps
    zero = bottom - low / step
    half = p.const(np.array(0.5, np.float32))
    zero = p.add("Clip", (zero + half).floor(), bottom, top)
    nothing = p.const(np.array(0, np.float32))
    empty = low.equals(nothing) & high.equals(nothing)
    return (
        (bottom - zero) * step,
        (top - zero) * step,
        step,
        empty,
    )


@ROWS.row(*(f"FakeQuantWithMinMax{kind}" for kind in _KINDS), source=ARRAY)
def fake_quant(p: Piece) -> Outputs:
    """The nearest point of the grid; halves go up."""
    low, high, step, empty = _grid(p, 1)
    clamped = p.name(0).min(high).max(low)
    inverse = step.reciprocal()
    half = p.const(np.array(0.5, np.float32))
    number = (clamped - low) * inverse
    number = (number + half).floor()
    return [p.add("Where", empty, 0, number * step + low)]


@ROWS.row(*(f"FakeQuantWithMinMax{kind}Gradient" for kind in _KINDS), source=ARRAY)
def fake_quant_grad(p: Piece) -> Outputs:
    """The gradient within the range; what is below and above goes to the range's ends."""
    low, high, _, empty = _grid(p, 2)
    gradient, x, zero = p.name(0), p.name(1), p.number(0)
    below, above = x < low, x > high
    gradient_inside = p.add("Where", ~(below | above) | empty, gradient, zero)
    if "Args" in p.op.type:
        return [gradient_inside]
    axes = list(range(p.rank(0) - 1 if "PerChannel" in p.op.type else p.rank(0)))
    ends = []
    for side in (below, above):
        value = p.add("Where", side & ~empty, gradient, zero)
        ends.append(p.summed("ReduceSum", value, axes) if axes else value)
    return [gradient_inside, *ends]
