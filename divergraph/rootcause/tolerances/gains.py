"""Gains: errors in the direction of the output itself.

Rounding errors are independent from element to element, so an error of ordinary norm may still
contain a common factor far above what chance makes. Along the output the floor is lower: the gain
of the emulation, and what n independent errors add up to. A gain of a tensor inside a group moves
the output in another direction, which is found by trying it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.floors import least_floor
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.values import relative

_BLOCK = 1 << 15
_MOST_INSIDE = 16
"""Tensors inside a group that are tried. Bounds cost: each is one more run of the group."""


def gain_floor(
    estimate: ToleranceEstimate, precision: Precision, ops: float, direction: Array | None = None
) -> float:
    """The relative floor for the error if it is a gain, else the floor of *estimate*.

    Only for arithmetics that round every value, whose floors are coarse enough to hide a gain.
    *ops* is how many ops of the group may contribute to that direction, each independently.
    *direction* (of the reference's shape) is how a gain inside the group moves the output; None:
    the output itself.
    """
    reference, device, emulated = estimate.reference, estimate.device, estimate.emulation
    if not (precision.rounds and estimate.are_floats) or emulated is None:
        return estimate.floor
    direction = reference if direction is None else direction
    if emulated.dtype.kind != "f" or not emulated.shape == direction.shape == reference.shape:
        return estimate.floor
    sums = _sums(*(array.reshape(-1) for array in (reference, device, emulated, direction)))
    scale = math.sqrt(sums.energy * sums.direction_energy)
    if scale == 0.0 or not math.isfinite(sums.apart) or not math.isfinite(scale):
        return estimate.floor
    introduced = math.sqrt(sums.apart / sums.energy)
    gain = abs(sums.along) / scale
    if not gain or gain < calibration.GAIN_SHARE * introduced:
        return estimate.floor
    usual = abs(sums.emulated_along) / scale
    by_chance = estimate.floor * math.sqrt(sums.spread) / scale
    rounding = least_floor(precision, int(sums.places)) * math.sqrt(max(ops, 1))
    floor = max(calibration.GAIN_EMULATED * usual, calibration.GAIN_BY_CHANCE * by_chance, rounding)
    return min(estimate.floor, floor) if math.isfinite(floor) else estimate.floor


def inner_gain_floor(
    estimate: ToleranceEstimate, precision: Precision, directions: Sequence[Array]
) -> float:
    """As ``gain_floor``, the lowest for gains of tensors inside the group, which move the output
    along *directions*."""
    moved = [
        estimate.reference * estimate.reference.dtype.type(calibration.GAIN_TRIED),
        *directions,
    ]
    energy = _product(moved[0], moved[0])
    floor = estimate.floor
    for direction in directions if energy > 0.0 else ():
        own = _product(direction, direction)
        if own > 0.0:
            ops = sum(_product(move, direction) ** 2 for move in moved) / (own * energy)
            floor = min(floor, gain_floor(estimate, precision, ops, direction))
    return floor


def directions_inside(
    executor: Executor, golden: OpGraph, group: Group, feeds: Mapping[str, Array], memory: int
) -> list[Array]:
    """How the output changes with a small gain of each tensor inside *group*: arrays of its shape;
    none for groups of more than 16 such tensors."""
    name = golden.name(group.golden)
    read = {ref.tensor for op_id in group.ops for ref in golden.inputs(golden.ops[op_id])}
    inside = [
        tensor.name
        for op_id in group.ops
        for tensor in golden.ops[op_id].outputs
        if tensor.name in read
    ]
    if not inside or len(inside) > _MOST_INSIDE:
        return []
    (result,) = executor.run_subgraphs(
        [RunnableSubgraph(name, tuple(feeds), (*inside, name))], lambda _: feeds, memory=memory
    )
    right = result.values.get(name)
    moved = {
        inner: value * value.dtype.type(1.0 + calibration.GAIN_TRIED)
        for inner, value in result.values.items()
        if inner != name and value.dtype.kind == "f" and value.size
    }
    subgraphs = [RunnableSubgraph(inner, (*feeds, inner), (name,)) for inner in moved]
    results = executor.run_subgraphs(
        subgraphs, lambda subgraph: {**feeds, subgraph.key: moved[subgraph.key]}, memory=memory
    )
    outputs = [value for run in results if (value := run.values.get(name)) is not None]
    with np.errstate(invalid="ignore"):
        return [
            output - right
            for output in outputs
            if right is not None and output.shape == right.shape
        ]


def _product(one: Array, other: Array) -> float:
    """The sum of the products of all elements that are finite."""
    with np.errstate(all="ignore"):
        products = np.multiply(one, other, dtype=np.float64)
    return float(np.sum(products, where=np.isfinite(products)))


class _Sums(NamedTuple):
    """Over the places where the reference is finite: how many there are, |r|², |d - r|²,
    (d - r)·w, (e - r)·w, |w|² and the sum of (w r)² element by element."""

    places: float
    energy: float
    apart: float
    along: float
    emulated_along: float
    direction_energy: float
    spread: float


def _sums(reference: Array, device: Array, emulated: Array, direction: Array) -> _Sums:
    """The sums, block by block: whole tensors in float64 would take several times the memory."""
    totals = np.zeros(len(_Sums._fields))
    for start in range(0, reference.size, _BLOCK):
        right, actual, imitated, moved = (
            np.asarray(array[start : start + _BLOCK], np.float64)
            for array in (reference, device, emulated, direction)
        )
        finite = np.isfinite(right) & np.isfinite(moved)
        if not finite.all():
            right, actual, imitated, moved = (
                array[finite] for array in (right, actual, imitated, moved)
            )
        with np.errstate(all="ignore"):
            off, along = actual - right, right * moved
            terms = (right**2, off**2, off * moved, (imitated - right) * moved, moved**2, along**2)
            totals += [right.size, *map(np.sum, terms)]
    return _Sums(*totals.tolist())


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    # Errors of a quantiser are not independent, so they may add up along the output without a gain.
    if context.quantises:
        return None
    floor = gain_floor(estimate, context.arithmetic.precision, context.ops)
    floor = min(floor, _inner(context, estimate, floor))
    return Narrow(floor) if floor < estimate.floor else None


def _inner(context: OpContext, estimate: ToleranceEstimate, floor: float) -> float:
    """The floor of a gain inside the group. Only tried if error over *floor* is above what healthy
    ops have but not suspect, since it costs several runs of the group."""
    suspect, precision = context.options.suspect, context.arithmetic.precision
    ratio = relative(estimate.device, estimate.reference) / floor
    is_doubtful = calibration.HEALTHY_SHARE * suspect < ratio <= suspect
    if context.ops < 2 or not (precision.rounds and is_doubtful):
        return estimate.floor
    memory = context.options.memory // 2
    directions = directions_inside(
        context.executor, context.golden, context.group, context.given, memory
    )
    return inner_gain_floor(estimate, precision, directions)


TOLERANCE = Tolerance(
    "gain",
    Stage.HIDDEN,
    20,
    "rounding errors are independent, so an error in the direction of the output has a lower floor",
    _apply,
)
