"""Two slices of a weight that are exchanged, found by running the group with each exchange.

Which slices those are is often not seen in the output: behind a Softmax or a mean every value is
wrong, and of one sample a class has one value only. There are few exchanges to try, and one that
leaves no more than noise of many wrong values is not there by luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors, rms
from divergraph.rootcause.causes.limits import LUCK, SURE
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.reruns.operands import LARGEST

_MOST_TRIALS, _MOST_PRODUCTS = 600, 1 << 28
"""Exchanges tried along one axis, and the multiplications all of them may take. Bounds cost."""
_AT_ONCE = 1 << 22
"""Elements of weights and outputs that are tried together. Bounds memory."""
_MOST_SLICES = 4
"""Wrong slices of the output that are exchanged with each other where all would be too many."""


def exchanged_weights(view: SampledTensors) -> Cause | None:
    """The group gives what the device has with two slices of one weight exchanged."""
    case = view.case
    if case.reweigh is None or not view.visible:
        return None
    for name, weight in case.constants.items():
        if weight.dtype.kind == "f" and weight.ndim > 1 and weight.size <= LARGEST:
            for axis in range(weight.ndim):
                cause = _exchanged(view, name, weight, axis)
                if cause is not None:
                    return cause
    return None


def _exchanged(view: SampledTensors, name: str, weight: Array, axis: int) -> Cause | None:
    """The cause where one exchange along *axis*, and no other, explains the device."""
    pairs = list(_pairs(view, weight, axis))
    errors = dict(_fitting(view, name, weight, axis, pairs))
    if not errors:
        return None
    best = min(errors, key=errors.__getitem__)
    noise = max(errors[best], view.noise, view.unit * rms(view.d))
    same = [pair for pair in errors if errors[pair] <= 2.0 * noise]
    seen = int(np.count_nonzero(view.wrong))
    if len(same) > 1 or len(pairs) * (noise / view.error) ** seen > LUCK:
        return None
    (output,) = _made(view, name, weight, axis, [best])
    if output is None:
        return None
    reading = (op for op in view.case.ops if any(ref and ref.tensor == name for ref in op.inputs))
    op = next(reading, view.case.ops[-1])
    sure, how = view.told(output, SURE)
    first, second = best
    return Cause(
        "wrong_weights",
        f"the device has {how} what {op.type} {op.name or op.id} gives with indices {first} and "
        f"{second} of axis {axis} of {name} exchanged",
        sure,
        {
            "op": op.id,
            "weight": name,
            "weight_axis": axis,
            "exchanged": [first, second],
            "left": view.left(output),
        },
    )


def _fitting(
    view: SampledTensors, name: str, weight: Array, axis: int, pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], float]]:
    """The exchanges that explain the device, and what each leaves of it."""
    at_once = max(_AT_ONCE // max(weight.size, view.d.size, 1), 1)
    for start in range(0, len(pairs), at_once):
        tried = pairs[start : start + at_once]
        for pair, output in zip(tried, _made(view, name, weight, axis, tried), strict=True):
            if output is not None and view.fits(output):
                yield pair, rms(view.d - output)


def _made(
    view: SampledTensors, name: str, weight: Array, axis: int, pairs: Sequence[tuple[int, int]]
) -> list[Floats | None]:
    """The group's output with each exchange; None where it cannot be run."""
    case = view.case
    assert case.reweigh is not None
    outputs = case.reweigh([{name: _with(weight, axis, pair)} for pair in pairs])
    shape = case.reference.shape
    return [
        view.made(output) if output is not None and output.shape == shape else None
        for output in outputs
    ]


def _pairs(view: SampledTensors, weight: Array, axis: int) -> Iterator[tuple[int, int]]:
    """The exchanges to try: all if they are few, else those of the slices that are wrong."""
    length = weight.shape[axis]
    cost = view.case.reference.size * weight.size // max(length, 1)
    if length * (length - 1) // 2 <= min(_MOST_TRIALS, _MOST_PRODUCTS // max(cost, 1)):
        yield from combinations(range(length), 2)
        return
    for out in view.axes():
        if view.d.shape[out] == length and view.steps[out] == 1:
            wrong: Sequence[int] = wrong_slices(view, out).tolist()
            if 2 <= len(wrong) <= _MOST_SLICES:
                yield from combinations(sorted(wrong), 2)
                return


def _with(weight: Array, axis: int, pair: tuple[int, int]) -> Array:
    """The weight with two slices of an axis exchanged."""
    order = np.arange(weight.shape[axis])
    order[list(pair)] = pair[::-1]
    return np.ascontiguousarray(np.take(weight, order, axis))


CAUSES = (CauseRule(exchanged_weights, CauseStage.LINE, 26),)
