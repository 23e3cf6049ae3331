"""The op that chose, behind whatever only moved its choices on, and what it chose by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause import calibration
from divergraph.rootcause.choices.margins import MARGINS, Margin, Scores
from divergraph.rootcause.devices.deciding import MOVING
from divergraph.rootcause.tolerances.contract import OpContext, input_quantisers
from divergraph.rootcause.tolerances.last_place import scale_of
from graphstore.model import InputRef, Op, TensorRef

_KEEPING = MOVING | {"Cast"}
"""Ops behind a choice that leave it what it is: a cast to another type of integers does."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """The ``op`` of a group that chose its output ``port``, and the ``tail`` that moved it on."""

    op: Op
    port: int
    tail: tuple[str, ...]

    @property
    def tensor(self) -> str:
        """The tensor it chose."""
        return self.op.outputs[self.port].name


def chooser_of(context: OpContext) -> Chooser | None:
    """The op that chose what the group gives; None where that is no op whose choices are known."""
    group, golden, tail = context.group, context.golden, list[str]()
    ref: TensorRef | None = group.golden
    while ref is not None and ref.op in group.ops:
        op = golden.ops[ref.op]
        if op.type in MARGINS and _is_of_floats(context, op):
            return Chooser(op, ref.port, tuple(tail))
        if op.type not in _KEEPING or not op.inputs or op.inputs[0] is None:
            return None
        tail.append(op.id)
        ref = op.inputs[0].producer
    return None


def _is_of_floats(context: OpContext, op: Op) -> bool:
    """Whether an op chooses by its input: a cast of integers to other integers does not."""
    if op.type != "Cast":
        return True
    name = "" if op.inputs[0] is None else op.inputs[0].tensor
    given_value = context.given.get(name)
    outputs = _run(context, [name]) if given_value is None else [given_value]
    return outputs is not None and outputs[0].dtype.kind == "f"


def margin_of(context: OpContext, chooser: Chooser, right: Array, dumped: Array) -> Margin | None:
    """The margin of each element of the group's output; None where it cannot be told.

    *right* and *dumped* are the choices as they should be and as they are, in one shape.
    """
    places = _places(context, chooser, right)
    scores = _scores(context, chooser.op)
    if places is None or scores is None:
        return None
    outputs = _run(context, [chooser.tensor])
    if outputs is None:
        return None
    best = outputs[0]
    own = best.astype(np.result_type(best.dtype, dumped.dtype))
    own.reshape(-1)[places] = dumped.reshape(-1)
    margin = MARGINS[chooser.op.type](chooser.op, scores, best, own)
    if margin is None:
        return None
    shape = right.shape
    gap, noise = (array.reshape(-1)[places].reshape(shape) for array in (margin.gap, margin.noise))
    return Margin(gap, noise)


def _places(context: OpContext, chooser: Chooser, right: Array) -> Array | None:
    """By element of the group's output the number of the choice it is; None if that is not clear.
    The tail is run on these numbers in place of the choices."""
    if not chooser.tail:
        return np.arange(right.size)
    outputs = _run(context, [chooser.tensor])
    if outputs is None or outputs[0].dtype.kind not in "iu":
        return None
    numbers = np.arange(outputs[0].size, dtype=outputs[0].dtype).reshape(outputs[0].shape)
    if outputs[0].size > np.iinfo(outputs[0].dtype).max:
        return None
    name = context.golden.name(context.group.golden)
    piece = RunnableSubgraph("tail", (*context.given, chooser.tensor), (name,))
    feeds = {**context.given, chooser.tensor: numbers}
    (result,) = context.executor.run_subgraphs(
        [piece], lambda _: feeds, memory=context.options.memory // 2
    )
    moved = result.values.get(name)
    if moved is None or moved.size != right.size or moved.dtype.kind not in "iu":
        return None
    return np.asarray(moved.reshape(-1), np.int64)


def _scores(context: OpContext, op: Op) -> list[Scores] | None:
    """What *op* reads, each with its noise; None where it cannot be run."""
    refs = [ref for ref in op.inputs if ref is not None]
    inner = [ref.tensor for ref in refs if ref.tensor not in context.given]
    outputs = _run(context, inner) if inner else []
    if outputs is None:
        return None
    values = {**context.given, **dict(zip(inner, outputs, strict=True))}
    scores = []
    for ref in refs:
        value = values[ref.tensor]
        computed = ref.producer is not None and ref.producer.op in context.group.ops
        noise = _of_inner(context, ref, value) if computed else _of_dumped(context, ref, value)
        largest = context.arithmetic.precision.largest or math.inf
        wide = np.clip(np.asarray(value, np.float64), -largest, largest)
        scores.append(Scores(wide, np.where(np.isfinite(noise), noise, 0.0)))
    return scores


def _of_dumped(context: OpContext, ref: InputRef, value: Array) -> Array:
    """How far what the op read may be from its dump: the dump was rounded, the op may have been
    given the value before. In arithmetics that do not round, as far as sums in another order."""
    precision = context.arithmetic.precision
    if value.dtype.kind != "f":
        return np.zeros(value.shape)
    sizes = np.abs(np.asarray(value, np.float64))
    steps = [
        float(np.max(quantiser.scale))
        for name, quantiser in input_quantisers(context)
        if name == ref.tensor
    ]
    smallest = max(precision.smallest_normal, 0.0 if precision.rounds else scale_of(value))
    return precision.value_units * precision.unit * (sizes + smallest) + max(steps, default=0.0)


def _of_inner(context: OpContext, ref: InputRef, value: Array) -> Array:
    """How far a score that was not dumped may be off: the spread of emulations, each with new
    random rounding, times the limit of guilt, as for any noise that is only known by its size."""
    assert ref.producer is not None
    if value.dtype.kind != "f":
        return np.zeros(value.shape)
    arithmetic, group = context.arithmetic, replace(context.group, golden=ref.producer)
    wide, energy, count = np.asarray(value, np.float64), np.zeros(value.shape), 0
    for drawn in arithmetic.draws(group, context.given, calibration.ROUNDED_DRAWS):
        if drawn.shape == value.shape:
            with np.errstate(invalid="ignore"):
                energy += np.nan_to_num(np.square(drawn - wide), posinf=0.0)
            count += 1
    spread = np.sqrt(energy / count) if count else np.zeros(value.shape)
    # One element may be exact in all draws by luck: none is more so than half of what is usual.
    usual = 0.5 * float(np.sqrt(np.mean(np.square(spread)))) if spread.size else 0.0
    smallest = arithmetic.precision.least_units * arithmetic.precision.unit * np.abs(wide)
    return context.options.guilty * np.maximum(np.maximum(spread, usual), smallest)


def _run(context: OpContext, tensors: Sequence[str]) -> list[Array] | None:
    """The values of tensors inside the group, or of constants it reads; None if it fails."""
    feeds: Mapping[str, Array] = context.given
    piece = RunnableSubgraph("scores", tuple(feeds), tuple(tensors))
    (result,) = context.executor.run_subgraphs(
        [piece], lambda _: feeds, memory=context.options.memory // 2
    )
    outputs = [result.values.get(name) for name in tensors]
    arrays = [array for array in outputs if array is not None]
    return arrays if len(arrays) == len(outputs) else None
