"""Faults before the last op of a group: what would come out if an op inside had failed so?

Of several ops between two dumps the values between are not there. But what the original ops make
of a fault put in between can be computed, and held against what the device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from divergraph.root_cause.causes.case import Array, Cause, Floats, Inside, InsideStep, View, rms
from divergraph.root_cause.causes.functions import FUNCTIONS

_MOST_STEPS = 12
_LARGEST = 1 << 22
"""Elements of an output for which groups are still run again and again."""
_REST = 0.1
_NEAR = 0.02
"""Explanations that leave so little more of the error than the best explain it as well."""
_SURE, _UNSURE = 0.9, 0.65
_UNARY = 1
Change = Callable[[float], Array]


@dataclass(frozen=True)
class _Guess:
    """One fault at one op inside: the values it would have made there, and the words for it."""

    step: InsideStep
    label: str
    words: str
    value: Array
    number: float | None = None


def inside(view: View) -> Cause | None:
    """An op inside the group left out, its bias lost, or another function in its place."""
    return _best(view, _exact)


def inside_amount(view: View) -> Cause | None:
    """An op inside the group off by a factor or a constant, cut off, or its end not written."""
    return _best(view, _searched)


def _best(view: View, guesses: Callable[[View, Inside], Iterator[_Guess]]) -> Cause | None:
    case = view.case
    there = case.inside
    if there is None or case.device.size > _LARGEST or view.d.size < 8:
        return None
    if len(there.steps) > _MOST_STEPS or view.error <= 3.0 * view.noise:
        return None
    found: list[tuple[float, _Guess]] = []
    for guess in guesses(view, there):
        made = there.replaced(guess.step, guess.value)
        if made is None or made.shape != case.reference.shape:
            continue
        predicted = np.nan_to_num(view.sample(made))
        if view.fits(predicted, rest=_REST):
            found.append((view.left(predicted), guess))
    return _told(view, found) if found else None


def _told(view: View, found: list[tuple[float, _Guess]]) -> Cause:
    found.sort(key=lambda each: each[0])
    left, guess = found[0]
    others = [each for each_left, each in found[1:] if each_left <= left + _NEAR]
    also = next((each for each in others if each.label != guess.label), None)
    op = guess.step.op
    sentence = f"the device has just what comes out if {guess.words}"
    if also is not None:
        sentence += f"; as well if {also.words}"
    evidence: dict[str, object] = {"op": op.id, "left": left, "explanations": len(others) + 1}
    if guess.number is not None:
        evidence["amount"] = guess.number
    sure = _SURE if also is None and view.d.size >= 64 else _UNSURE
    return Cause(guess.label, sentence, sure, evidence)


def _exact(_view: View, there: Inside) -> Iterator[_Guess]:
    for step in there.steps:
        called = f"{step.op.type} {step.op.name or step.op.id}"
        for name, value in step.inputs.items():
            if value.shape == step.value.shape and value.dtype.kind == "f":
                words = f"{called} hands on its input {name}: it was not computed"
                yield _Guess(step, "missing_op", words, value)
        for name, value in step.constants.items():
            bias = _as_bias(step, name, value)
            if bias is not None:
                words = f"{called} lacks its bias {name}"
                yield _Guess(step, "lost_bias", words, step.value - bias)
        yield from _functions(step, called)


def _functions(step: InsideStep, called: str) -> Iterator[_Guess]:
    """Other functions in the place of one of a single input."""
    same = [x for x in step.inputs.values() if x.shape == step.value.shape and x.dtype.kind == "f"]
    if len(step.inputs) != _UNARY or len(same) != _UNARY or step.op.type not in ACTIVATIONS:
        return
    for word, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            made = np.asarray(function(same[0].astype(np.float64)))
        if np.isfinite(made).all() and rms(made - step.value) > 1e-3 * rms(_floats(step.value)):
            words = f"{called} is {word}"
            yield _Guess(step, "wrong_activation", words, made)


def _searched(view: View, there: Inside) -> Iterator[_Guess]:
    for step in there.steps:
        called = f"{step.op.type} {step.op.name or step.op.id}"
        value = _floats(step.value)
        spread = float(np.std(value)) or rms(value)
        changes: tuple[tuple[str, str, float, Change], ...] = (
            ("gain", "is {:.5g} times what it should be", 0.02, partial(_times, value)),
            ("global_offset", "is off by {:+.5g}", 0.02 * spread, partial(np.add, value)),
        )
        for label, words, small, change in changes:
            amount = _solved(view, there, step, change, small)
            if amount is not None:
                number = 1.0 + amount if label == "gain" else amount
                said = f"{called} {words.format(number)}"
                yield _Guess(step, label, said, change(amount), number)
        yield from _cut(view, there, step, called)


def _times(value: Floats, amount: float) -> Floats:
    return value * (1.0 + amount)


def _solved(
    view: View, there: Inside, step: InsideStep, change: Change, small: float
) -> float | None:
    """The amount of *change* whose outcome is nearest to the device, by secants."""
    amount, at = 0.0, view.r
    for _ in range(4):
        moved = _outcome(view, there, step, change(amount + small))
        if moved is None:
            return None
        slope = (moved - at) / small
        power = float(np.sum(slope * slope))
        if power == 0.0:
            return None
        amount += float(np.sum(slope * (view.d - at))) / power
        landed = _outcome(view, there, step, change(amount))
        if landed is None:
            return None
        at = landed
        if rms(view.d - at) <= 0.02 * view.error:
            break
        if rms(view.d - at) > 0.9 * view.error:
            return None
    return amount


def _cut(view: View, there: Inside, step: InsideStep, called: str) -> Iterator[_Guess]:
    """Ends that were not written, values cut off or flushed, channels lost."""
    value = _floats(step.value)
    flat, sizes = value.reshape(-1), np.sort(np.abs(value).reshape(-1))
    if flat.size < 16:
        return

    def tail(part: float) -> Array:
        made = flat.copy()
        made[round(part * flat.size) :] = 0.0
        return made.reshape(value.shape)

    def clipped(part: float) -> Array:
        limit = sizes[min(int(part * sizes.size), sizes.size - 1)]
        return np.clip(value, -limit, limit)

    def flushed(part: float) -> Array:
        limit = sizes[min(int(part * sizes.size), sizes.size - 1)]
        return np.where(np.abs(value) <= limit, 0.0, value)

    for label, words, make, low, high in (
        ("tail_not_written", "the end of {} from {:.3g} of it on is zero", tail, 0.05, 0.995),
        ("saturation", "{} is cut off at the size of its {:.4g} quantile", clipped, 0.5, 0.9999),
        ("flush_to_zero", "values of {} below its {:.3g} quantile are zero", flushed, 0.05, 0.9),
    ):
        part = _nearest(view, there, step, make, low, high)
        if part is not None:
            yield _Guess(step, label, words.format(called, part), make(part), part)
    for bits in (4, 5, 6, 7, 8):
        unit = float(sizes[-1]) / (2 ** (bits - 1) - 1)
        if unit > 0.0:
            words = f"{called} lies on a grid of step {unit:.4g} ({bits} bits)"
            yield _Guess(step, "quantised_grid", words, np.round(value / unit) * unit, unit)


def _nearest(
    view: View,
    there: Inside,
    step: InsideStep,
    make: Callable[[float], Array],
    low: float,
    high: float,
) -> float | None:
    """Where between *low* and *high* the outcome is nearest to the device; None if far off."""

    def left(part: float) -> float:
        made = _outcome(view, there, step, make(part))
        return np.inf if made is None else rms(view.d - made)

    places = np.linspace(low, high, 9)
    lefts = [left(float(place)) for place in places]
    best = int(np.argmin(lefts))
    if lefts[best] > 0.9 * view.error:
        return None
    low, high = float(places[max(best - 1, 0)]), float(places[min(best + 1, 8)])
    for _ in range(14):
        first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
        if left(first) < left(second):
            high = second
        else:
            low = first
    return (low + high) / 2


def _outcome(view: View, there: Inside, step: InsideStep, value: Array) -> Floats | None:
    made = there.replaced(step, value)
    if made is None or made.shape != view.case.reference.shape:
        return None
    return np.asarray(np.nan_to_num(view.sample(made)))


def _as_bias(step: InsideStep, name: str, bias: Array) -> Array | None:
    """A constant as what was added to each channel of an op's output."""
    names = [ref.tensor for ref in step.op.inputs if ref is not None]
    weighted = step.op.type in _BIASED and name in names[2:3]
    if not weighted or bias.ndim != 1 or not bias.any():
        return None
    axis = 1 if step.value.ndim > 2 else step.value.ndim - 1
    if step.value.shape[axis] != bias.size:
        return None
    shape = [1] * step.value.ndim
    shape[axis] = bias.size
    return bias.reshape(shape)


def _floats(values: Array) -> Floats:
    return np.asarray(values, np.float64)


_BIASED = frozenset(("Conv", "ConvTranspose", "Gemm"))
ACTIVATIONS = frozenset(
    (
        *("Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Erf"),
        *("Elu", "Exp", "Gelu", "Softsign", "Selu", "Relu6", "Silu", "Swish", "Mish", "Celu"),
    )
)
