"""Elements outside of the bound of an op whose arithmetic is known exactly.

A sum, a product or a root of two elements has no noise of unknown size: each element may be off by
a unit in the last place of each operand, as far as the op hands that on, and by one of the result,
whatever way a device rounds. So no norm is asked, and no margin for arithmetic nobody has seen: the
elements outside are counted, and so many, so far, are no chance. Small tensors show most by it: of
twenty values off by three units the norm is next to that of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.values import norms, relative
from graphstore.model import Op

_EXACT: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("Add", "AddV2", "BiasAdd"), np.add),
    "Sub": np.subtract,
    "Mul": np.multiply,
    **dict.fromkeys(("Div", "RealDiv"), np.divide),
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Rsqrt": lambda x: 1.0 / np.sqrt(x),
    "Square": np.square,
}
"""What ops give, of operands in float64."""
_APPROXIMATED = frozenset(("Div", "RealDiv", "Sqrt", "Reciprocal", "Rsqrt"))
"""Those whose kernels may be off by one more last place."""
_LARGEST = 1 << 20
"""Elements of the largest output that is looked at: in larger ones norms see as much. Bounds cost.
"""
_FURTHEST = 40
"""How often the distance from the bound is taken up by a quarter."""


def outside(device: Array, reference: Array, bound: Array, ops: int) -> float:
    """The largest number of bounds that so many elements are off by that it is no chance in a run
    of *ops*; 0 where there is none. All arrays are float64 of one shape."""
    with np.errstate(all="ignore"):
        ratios = np.abs(device - reference) / bound
    sorted_ratios = np.sort(ratios[np.isfinite(ratios)])
    log_chance, farthest, distance = math.log(calibration.FALSE_ALARMS / max(ops, 1)), 0.0, 1.0
    for _ in range(_FURTHEST):
        count = sorted_ratios.size - int(np.searchsorted(sorted_ratios, distance, side="right"))
        if not count:
            break
        expected = sorted_ratios.size * calibration.OUTSIDE_CHANCE / distance**2
        # Chernoff's bound of so many elements where so few are expected.
        if count > expected and count * (1.0 + math.log(expected / count)) - expected < log_chance:
            farthest = distance
        distance *= 1.25
    return farthest


def _last_place(value: Array, unit: float) -> Array:
    """The spacing of the type's numbers at each value, from its unit roundoff."""
    return np.asarray(np.ldexp(unit, np.frexp(value)[1]))


def bound_of(op: Op, arrays: Sequence[Array], unit: float, smallest: float) -> Array | None:
    """How far each element of an exact op's output may be off in a type of this *unit* roundoff: a
    last place of each operand (*arrays*), one of itself, and *smallest*, which is added to each.
    None where its operands do not fit."""
    function = _EXACT[op.type]
    operands = [np.asarray(array, np.float64) for array in arrays]
    with np.errstate(all="ignore"):
        try:
            right = function(*operands)
        except (TypeError, ValueError):
            return None
        places = 2.0 if op.type in _APPROXIMATED else 1.0
        bound = places * _last_place(right, unit) + smallest
        for place, operand in enumerate(operands):
            step = _last_place(operand, unit) + smallest
            moved = [
                np.abs(function(*operands[:place], other, *operands[place + 1 :]) - right)
                for other in (operand + step, operand - step)
            ]
            bound = bound + np.fmax(*moved)
    return np.asarray(bound)


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    precision, reference = context.arithmetic.precision, estimate.reference
    if not (precision.rounds and estimate.are_floats) or context.ops != 1 or context.quantises:
        return None
    op = context.golden.ops[context.group.ops[0]]
    if op.type not in _EXACT or reference.size > _LARGEST or estimate.masked is not None:
        return None
    operands = _operands(context, op)
    introduced = relative(estimate.device, reference)
    if operands is None or not 0.0 < introduced < math.inf:
        return None
    bound = bound_of(op, operands, precision.unit, precision.smallest_normal)
    if bound is None or bound.shape != reference.shape:
        return None
    device, right = (np.asarray(side, np.float64) for side in (estimate.device, reference))
    distance = outside(device, right, bound, len(context.golden.ops))
    if not distance:
        return None
    floor = introduced / (context.options.guilty * max(distance, 1.25))
    absolute = floor * norms(reference, reference)[1]
    return Narrow(floor, absolute, numbers={"bounds": distance}) if floor < estimate.floor else None


def _operands(context: OpContext, op: Op) -> list[Array] | None:
    """What an op reads, constants included; None if that is not known."""
    names = [ref.tensor for ref in op.inputs if ref is not None]
    constants = context.arithmetic.constants([name for name in names if name not in context.given])
    values = {**context.given, **constants}
    if not all(name in values and values[name].dtype.kind == "f" for name in names):
        return None
    return [values[name] for name in names]


TOLERANCE = Tolerance(
    "exact op",
    Stage.HIDDEN,
    30,
    "of exact ops each element has a bound, and so many outside of it are no rounding",
    _apply,
)
