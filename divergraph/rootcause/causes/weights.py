"""Other forms of the weights: transposed, in another layout, in fewer bits.

The op is run with each, to see whether it then gives what the device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice, permutations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, SampledTensors, Trial
from divergraph.rootcause.causes.limits import LIKELY, SURE
from divergraph.rootcause.causes.reruns.operands import LARGEST, first_that_fits
from divergraph.rootcause.causes.words import axes_text
from divergraph.rootcause.devices.precisions.bf16 import BF16

_MOST_TRIES = 48
"""Trials of one kind. Bounds cost: each runs the group once more."""
_NEARLY = 0.3
"""The share of the error that rounded weights may leave: if the device's weights had other digits
before, some values round to the next step."""
_ORDERS: Mapping[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: tuple(permutations(range(3)))[1:],
    4: ((2, 3, 1, 0), (3, 2, 0, 1), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3)),
    5: ((2, 3, 4, 1, 0), (4, 3, 0, 1, 2), (0, 2, 3, 4, 1), (0, 4, 1, 2, 3), (1, 0, 2, 3, 4)),
}
"""By rank the permutations between the weight layouts of frameworks."""


def wrong_weights(view: SampledTensors) -> Cause | None:
    """The op was computed with its weights in another order, or in fewer bits."""
    case = view.case
    if case.reweigh is None or case.device.size > LARGEST:
        return None
    for make in (_orders, _roundings):
        match = first_that_fits(view, islice(_trials(case.constants, make), _MOST_TRIES))
        if match is not None:
            return _cause(*match, view)
    return None


def nearly_rounded_weights(view: SampledTensors) -> Cause | None:
    """The op was computed with weights in fewer bits, some of them rounded to another step."""
    case = view.case
    if case.reweigh is None or case.device.size > LARGEST or not view.visible:
        return None
    trials = islice(_trials(case.constants, _roundings), _MOST_TRIES)
    match = first_that_fits(view, trials, _NEARLY)
    return None if match is None else replace(_cause(*match, view), confidence=LIKELY)


def _trials(
    constants: Mapping[str, Array], make: Callable[[Array], Iterator[tuple[str, Array]]]
) -> Iterator[Trial[Array]]:
    """Trials with other values of a weight, except those equal to it."""
    label = "rounded_weights" if make is _roundings else "wrong_weights"
    for name, weight in constants.items():
        if weight.dtype.kind != "f" or weight.ndim < 2 or not 1 < weight.size <= LARGEST:
            continue
        for words, values in make(weight):
            if values.shape == weight.shape and not np.array_equal(values, weight):
                changed = np.ascontiguousarray(values, weight.dtype)
                yield Trial(label, f"{name} changed: {words}", {name: changed})


def _orders(weight: Array) -> Iterator[tuple[str, Array]]:
    axes = range(weight.ndim)
    for first, second in combinations(axes, 2):
        if weight.shape[first] == weight.shape[second]:
            yield f"axes {first} and {second} swapped", weight.swapaxes(first, second)
    window = range(2, weight.ndim)
    for count in range(len(window), 0, -1):
        for turned in combinations(window, count):
            yield f"{axes_text(turned)} reversed", np.flip(weight, turned)
    for order in _ORDERS.get(weight.ndim, ()):
        moved = weight.transpose(order)
        if moved.shape != weight.shape:
            words = f"memory written in the axis order {list(order)} and read as if it were not"
            yield words, moved.reshape(weight.shape)


def _roundings(weight: Array) -> Iterator[tuple[str, Array]]:
    for bits in (8, 4):
        yield f"values rounded to {bits} bits by one scale", _on_grid(weight, bits, None)
        for axis in dict.fromkeys((0, 1, weight.ndim - 1)):
            words = f"values rounded to {bits} bits by a scale for each of axis {axis}"
            yield words, _on_grid(weight, bits, axis)
    yield "values rounded to bfloat16", BF16.rounded(weight)
    yield "values cut to bfloat16", _cut(weight)


def _on_grid(weight: Array, bits: int, axis: int | None) -> Array:
    """*weight* rounded to steps of its largest size over 2^(bits-1) - 1, per slice of *axis*."""
    others = None if axis is None else tuple(n for n in range(weight.ndim) if n != axis)
    largest = np.max(np.abs(weight), axis=others, keepdims=True)
    step = np.where(largest > 0, largest, 1.0) / (2 ** (bits - 1) - 1)
    grid: Array = np.round(weight / step) * step
    return grid


def _cut(weight: Array) -> Array:
    """*weight* (float32) truncated to bfloat16: the upper half of the bits of each value."""
    bits = np.ascontiguousarray(weight, np.float32).view(np.uint32)
    cut: Array = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return cut


def _cause(trial: Trial[Array], output: Array, view: SampledTensors) -> Cause:
    what = " and ".join(dict.fromkeys(view.case.types)) or "op"
    sure, how = view.told(view.made(output), view.sure)
    (name,) = trial.values
    return Cause(
        trial.label,
        f"the device has {how} what the {what} gives with {trial.words}",
        sure,
        {"weight": name, "left": view.left(view.made(output))},
    )


CAUSES = (CauseRule(nearly_rounded_weights, CauseStage.LINE, 40, {"rounded_weights": SURE}),)
