"""A gain: an error that points the way of the output itself.

Rounding is by chance from element to element, so a norm of errors as large as usual may
still hold a factor of all elements, small but far above what chance makes. Along the output
the floor is lower: what the emulation is off by as a whole, and chance over many elements. A gain
of a tensor inside a group moves the output another way, which is seen by trying it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.rootcause import calibration
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
from divergraph.rootcause.tolerances.noise_floor import least_floor
from divergraph.rootcause.values import relative

_BLOCK = 1 << 15
_MOST_INSIDE = 16


def gain_floor(
    told: ToleranceEstimate, precision: Precision, ops: float, way: Array | None = None
) -> float:
    """The floor of a gain, if the error of the device *told* of is one; else its floor. Only for
    arithmetics whose floors are coarse.

    *ops* of the group may be off that way each by itself. *way* is where a gain inside the group
    moves the output; None for one of the output itself.
    """
    reference, device, emulated = told.reference, told.device, told.emulation
    if not (precision.rounds and told.are_floats) or emulated is None:
        return told.floor
    way = reference if way is None else way
    if emulated.dtype.kind != "f" or not emulated.shape == way.shape == reference.shape:
        return told.floor
    sums = _sums(*(each.reshape(-1) for each in (reference, device, emulated, way)))
    scale = math.sqrt(sums.energy * sums.way_energy)
    if scale == 0.0 or not math.isfinite(sums.apart) or not math.isfinite(scale):
        return told.floor
    introduced = math.sqrt(sums.apart / sums.energy)
    gain = abs(sums.along) / scale
    if not gain or gain < calibration.GAIN_SHARE * introduced:
        return told.floor
    usual = abs(sums.emulated_along) / scale
    by_chance = told.floor * math.sqrt(sums.spread) / scale
    least = least_floor(precision, int(sums.places)) * math.sqrt(max(ops, 1))
    floor = max(calibration.GAIN_EMULATED * usual, calibration.GAIN_BY_CHANCE * by_chance, least)
    return min(told.floor, floor) if math.isfinite(floor) else told.floor


def inner_gain_floor(told: ToleranceEstimate, precision: Precision, ways: Sequence[Array]) -> float:
    """As ``gain_floor``, for a gain of one of the tensors inside a group, that move the output
    along *ways*."""
    moved = [told.reference * told.reference.dtype.type(calibration.GAIN_TRIED), *ways]
    energy = _product(moved[0], moved[0])
    found = told.floor
    for way in ways if energy > 0.0 else ():
        own = _product(way, way)
        if own > 0.0:
            ops = sum(_product(each, way) ** 2 for each in moved) / (own * energy)
            found = min(found, gain_floor(told, precision, ops, way))
    return found


def ways_inside(
    executor: Executor, golden: OpGraph, group: Group, given: Mapping[str, Array], memory: int
) -> list[Array]:
    """Where a gain of each tensor inside *group* moves its output; none for large groups."""
    name = golden.name(group.golden)
    read = {ref.tensor for op_id in group.ops for ref in golden.inputs(golden.ops[op_id])}
    inside = [
        each.name for op_id in group.ops for each in golden.ops[op_id].outputs if each.name in read
    ]
    if not inside or len(inside) > _MOST_INSIDE:
        return []
    (found,) = executor.run_subgraphs(
        [RunnableSubgraph(name, tuple(given), (*inside, name))], lambda _: given, memory=memory
    )
    right = found.values.get(name)
    moved = {
        each: value * value.dtype.type(1.0 + calibration.GAIN_TRIED)
        for each, value in found.values.items()
        if each != name and value.dtype.kind == "f" and value.size
    }
    subgraphs = [RunnableSubgraph(each, (*given, each), (name,)) for each in moved]
    results = executor.run_subgraphs(
        subgraphs, lambda subgraph: {**given, subgraph.key: moved[subgraph.key]}, memory=memory
    )
    made = [value for each in results if (value := each.values.get(name)) is not None]
    with np.errstate(invalid="ignore"):
        return [each - right for each in made if right is not None and each.shape == right.shape]


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
    way_energy: float
    spread: float


def _sums(reference: Array, device: Array, emulated: Array, way: Array) -> _Sums:
    """Taken block by block: a whole tensor in float64 is several times what it holds."""
    found = np.zeros(len(_Sums._fields))
    for start in range(0, reference.size, _BLOCK):
        right, given, made, moved = (
            np.asarray(each[start : start + _BLOCK], np.float64)
            for each in (reference, device, emulated, way)
        )
        finite = np.isfinite(right) & np.isfinite(moved)
        if not finite.all():
            right, given, made, moved = (each[finite] for each in (right, given, made, moved))
        with np.errstate(all="ignore"):
            off, along = given - right, right * moved
            terms = (right**2, off**2, off * moved, (made - right) * moved, moved**2, along**2)
            found += [right.size, *map(np.sum, terms)]
    return _Sums(*found.tolist())


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    # Steps of a quantiser are no chance, so what adds up along the output is no gain.
    if context.quantises:
        return None
    floor = gain_floor(told, context.arithmetic.precision, context.ops)
    floor = min(floor, _inner(context, told, floor))
    return Narrow(floor) if floor < told.floor else None


def _inner(context: OpContext, told: ToleranceEstimate, floor: float) -> float:
    """The floor of a gain inside the group, if the error is large by *floor* but not suspect:
    trying it costs several runs of the group."""
    suspect, precision = context.options.suspect, context.arithmetic.precision
    ratio = relative(told.device, told.reference) / floor
    asked = calibration.HEALTHY_SHARE * suspect < ratio <= suspect
    if context.ops < 2 or not (precision.rounds and asked):
        return told.floor
    memory = context.options.memory // 2
    ways = ways_inside(context.executor, context.golden, context.group, context.given, memory)
    return inner_gain_floor(told, precision, ways)


TOLERANCE = Tolerance(
    "gain",
    Stage.HIDDEN,
    20,
    "rounding is by chance, so an error that points along the output itself has a lower floor",
    _apply,
)
