"""The outputs of ops with weights inside a group, as far as the device's output shows them.

Behind a product a group may add, cut off, scale and move its values. How each value of the group's
output depends on the product's is seen in runs of what follows: which value of the product moves
it, and by how much. So nothing is known here of activations or of axes. Where the output does not
move, as behind a Relu that gives 0, the product's value cannot be told and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from divergraph.rootcause.causes.evidence import (
    Array,
    Floats,
    Inside,
    InsideStep,
    Mask,
    Reweigh,
    SampledTensors,
    rms,
)
from divergraph.rootcause.causes.limits import FEW

_MOST_PRODUCTS = 3
"""Ops with weights inside a group that are looked at. Bounds cost."""
_LARGEST, _AT_ONCE = 1 << 21, 1 << 22
"""Elements of the largest product that is looked at, and those of products run side by side."""
_STEP = 1 / 256
"""By which share of its spread a product is moved to see what follows from it."""
_MOVED = 1e-3
"""The share of the usual move below which an element stands still."""
_WHOLE = 0.1
"""How far from the whole of its move an element's may be that is due to one value alone."""
_ROUNDS = 4
"""Steps towards the product's values; two are enough where what follows has straight pieces."""
_LEFT = 1e-4
"""The share of the error that may be left where the product's value is found."""
_MANY = 0.1
"""The share of elements that stand still from which on one value of theirs is a limit."""


def products(view: SampledTensors) -> Iterator[SampledTensors]:
    """The outputs of the group's ops with weights, the last first, as if each were measured.

    The case of each has that op alone. What cannot be told of the device's is NaN on both sides,
    so that no rule sees an error there.
    """
    case = view.case
    if len(case.ops) == 1:
        yield view
    if len(case.ops) <= 1:  # a variable's values come from no op
        return
    last = case.ops[-1]
    read = {ref.tensor for ref in last.inputs if ref is not None}
    constants = {name: value for name, value in case.constants.items() if name in read}
    if _has_weights(constants):
        yield SampledTensors(replace(case, ops=(last,), constants=constants, inside=None))
    if case.inside is None or view.sampled:
        return
    steps = [step for step in case.inside.steps if _has_weights(step.constants)]
    for step in steps[: -_MOST_PRODUCTS - 1 : -1]:
        if step.value.size <= _LARGEST and np.isfinite(step.value).all():
            seen = _Tail(view, case.inside, step).undone()
            if seen is not None:
                yield seen


def _has_weights(constants: Mapping[str, Array]) -> bool:
    return any(constant.dtype.kind == "f" and constant.ndim > 1 for constant in constants.values())


@dataclass(frozen=True)
class _Tail:
    """What follows ``step`` in its group."""

    view: SampledTensors
    inside: Inside
    step: InsideStep

    def undone(self) -> SampledTensors | None:
        """The step's output as the device must have had it, where that can be told."""
        view, own = self.view, self.step.value.astype(np.float64).reshape(-1)
        by = _STEP * (float(np.std(own)) or rms(own))
        base, slope = self._slope(own, by)
        if base is None or slope is None:
            return None
        source = self._source(own, by, base, slope)
        if source is None:
            return None
        device, seen = view.d.reshape(-1), (source >= 0) & view.finite.reshape(-1)
        seen &= ~np.isin(device, _held_at(device[slope == 0.0]))
        values, at, there = own.copy(), base, slope
        for _ in range(_ROUNDS):
            gap, able = device - at, seen & (there != 0.0)
            if np.all(np.abs(gap)[able] <= self._rounding(at)[able] / 4.0):
                break
            values[source[able]] += gap[able] / there[able]
            landed, slopes = self._slope(values, by)
            if landed is None or slopes is None:
                return None
            at, there = landed, slopes
        off = np.abs(device - at)
        seen &= (there != 0.0) & (off <= _LEFT * np.abs(view.e.reshape(-1)) + self._rounding(at))
        if np.count_nonzero(seen) < FEW:
            return None
        is_found = np.zeros(own.size, bool)
        is_found[source[seen]] = True
        return self._measured(np.where(is_found, values, np.nan), is_found, float(rms(slope[seen])))

    def _rounding(self, values: Floats) -> Floats:
        """What the arithmetic of the runs themselves may be off by."""
        rounding: Floats = 4.0 * np.finfo(np.float32).eps * (np.abs(values) + rms(values))
        return rounding

    def _measured(self, device: Floats, is_found: Mask, slope: float) -> SampledTensors:
        """The view of the step's output, with *device* values where they are *is_found*."""
        case, step, shape = self.view.case, self.step, self.step.value.shape
        hidden = np.where(is_found.reshape(shape), 0.0, np.nan)
        reference = step.value + hidden
        size = rms(reference.reshape(-1)[is_found]) * float(np.sqrt(np.mean(is_found)))
        return SampledTensors(
            replace(
                case,
                device=device.reshape(shape),
                reference=reference,
                floor=self.view.noise / slope / size if size else case.floor,
                inputs=step.inputs,
                constants=step.constants,
                ops=(step.op,),
                inside=None,
                rerun=None,
                reweigh=self._reweigh(hidden),
            )
        )

    def _reweigh(self, hidden: Floats) -> Reweigh:
        """What gives the step's output with other operands, NaN where it is *hidden*."""

        def again(trials: Sequence[Mapping[str, Array]]) -> list[Array | None]:
            outputs = self.inside.remade(self.step, trials)
            return [None if output is None else output + hidden for output in outputs]

        return again

    def _run(self, values: Sequence[Floats]) -> list[Floats | None]:
        """The group's output, flat, if the step gave each of *values*."""
        shape = self.step.value.shape
        outputs = self.inside.replaced([(self.step, array.reshape(shape)) for array in values])
        size = self.view.d.size
        return [
            None if output is None or output.size != size else self.view.made(output).reshape(-1)
            for output in outputs
        ]

    def _slope(self, values: Floats, by: float) -> tuple[Floats | None, Floats | None]:
        """The group's output at *values* of the step, and how it moves with them: 0 where it does
        not move on both sides."""
        base, up, down = self._run([values, values + by, values - by])
        if base is None or up is None or down is None:
            return None, None
        more, less = up - base, base - down
        moves = np.minimum(np.abs(more), np.abs(less))
        usual = float(np.median(moves[moves > 0.0])) if moves.any() else 0.0
        seen = (more * less > 0.0) & (moves > _MOVED * usual)
        return base, np.where(seen, (more + less) / (2.0 * by), 0.0)

    def _source(
        self, values: Floats, by: float, base: Floats, slope: Floats
    ) -> npt.NDArray[np.intp] | None:
        """By element of the group's output the number of the step's value that alone moves it; -1
        where there is none."""
        count, numbers = values.size, np.arange(values.size)
        if count == base.size:
            some = np.random.default_rng(5).random(count) < 0.5
            (moved,) = self._run([values + by * some])
            part = self._part(moved, by, base, slope)
            if part is not None and _agree(part, some, slope):
                return np.where(slope != 0.0, numbers, -1)
        sources = np.where(slope != 0.0, 0, -1)
        bits = range(max(count - 1, 1).bit_length())
        at_once = max(_AT_ONCE // count, 1)
        for start in bits[::at_once]:
            batch = bits[start : start + at_once]
            outcomes = self._run([values + by * (numbers >> bit & 1) for bit in batch])
            for bit, moved in zip(batch, outcomes, strict=True):
                part = self._part(moved, by, base, slope)
                if part is None:
                    return None
                sources = np.where(part > 0.5, sources | 1 << bit, sources)
                sources[np.minimum(np.abs(part), np.abs(part - 1.0)) > _WHOLE] = -1
        return np.where((sources < count) & (slope != 0.0), sources, -1)

    def _part(self, moved: Floats | None, by: float, base: Floats, slope: Floats) -> Floats | None:
        """The share of its whole move by which each element of the output *moved*."""
        if moved is None:
            return None
        slopes = np.where(slope != 0.0, by * slope, 1.0)
        return np.where(slope != 0.0, (moved - base) / slopes, 0.0)


def _held_at(device: Floats) -> Floats:
    """The values that many have where the output stands still, as the 0 of a Relu: whatever more
    the reference allows for, an element with one of these tells nothing of what it was made of."""
    values, counts = np.unique(device, return_counts=True)
    return np.asarray(values[counts > _MANY * device.size])


def _agree(part: Floats, some: Mask, slope: Floats) -> bool:
    """Whether each element that moves does so where its own number is one of *some*, and only
    there."""
    seen = slope != 0.0
    return bool(seen.any()) and bool(np.all(np.abs(part - some)[seen] <= _WHOLE))
