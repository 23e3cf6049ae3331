"""Faults before the last op of a group: what would come out if an op inside had failed?

Values between the ops of a group were not dumped. But a fault can be put in there, the rest of the
group run, and its output compared with the device's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import (
    Array,
    Cause,
    Floats,
    InsideStep,
    SampledTensors,
    rms,
)
from divergraph.rootcause.causes.functions import FUNCTIONS
from divergraph.rootcause.causes.limits import ALL, CLOSE, GUESS, LEFT, LIKELY, LUCK, STEP
from divergraph.rootcause.causes.reruns.settings import wrong_setting
from divergraph.rootcause.causes.words import as_well, slices_text, step_text
from graphstore.model import EvidenceValue

_LARGEST = 1 << 22
"""Elements of the largest output for which groups are run many times."""
_LARGEST_SEARCH, _PER_STEP = 1 << 27, 30
"""Elements that a search for amounts may compute in all, and runs it needs for each step."""
_PLACES, _REFINED = 7, 4
"""Amounts tried in one round of a search, and searches that are refined."""
_UNARY = 1
_LAGGED = 6
"""Shifts are only looked for along longer axes."""
Change = Callable[[float], Array]


@dataclass(frozen=True)
class _Guess:
    """One fault of one op inside: the values it would have given, and the words for it."""

    step: InsideStep
    label: str
    words: str
    value: Array
    number: float | None = None


def inside(view: SampledTensors) -> Cause | None:
    """An op inside the group was left out, lost its bias, has its values in another order, or
    computed another function."""
    if not _steps(view):
        return None
    cause = _last_op(view) or _best_guess(view, [*_exact(view)])
    other = None if cause is None else wrong_setting(view, numbers=False)
    return cause if cause is None or other is None else as_well(cause, other)


def _last_op(view: SampledTensors) -> Cause | None:
    """The last op passed on its input from inside the group, or is another function of it."""
    last = view.case.ops[-1]
    reads = {ref.tensor for ref in last.inputs if ref is not None}
    shape = view.case.reference.shape
    for step in _steps(view):
        if step.tensor not in reads or step.value.shape != shape:
            continue
        value = view.sample(step.value)
        sure = view.sure
        if view.fits(value):
            sure, how = view.told(value, sure)
            return Cause(
                "missing_op",
                f"the device has {how} what comes out of {step_text(step)} before it: the "
                f"{last.type} was not computed",
                sure,
                {"op": last.id, "left": view.left(value), "explanations": 1},
            )
        for word, function in FUNCTIONS.items() if last.type in ACTIVATIONS else ():
            output = np.asarray(function(value))
            if np.isfinite(output).all() and view.fits(output, rest=0.5 * LEFT):
                return Cause(
                    "wrong_activation",
                    f"the output is {word} of what {step_text(step)} gives, where {last.type} is "
                    "expected",
                    sure,
                    {"op": last.id, "function": word, "left": view.left(output)},
                )
    return None


def inside_amount(view: SampledTensors) -> Cause | None:
    """An op inside the group is off by a factor or a constant, is cut off at a limit, flushed,
    quantised, or its end was not written."""
    steps = _steps(view)
    size = sum(step.value.size + view.case.device.size for step in steps)
    if not steps or size * _PER_STEP > _LARGEST_SEARCH:
        return None
    return _best_guess(view, [*_lines(view), *_cuts(view)])


def _outcomes(
    view: SampledTensors, guesses: Sequence[tuple[InsideStep, Array]]
) -> list[Floats | None]:
    """For each guess the group's output with that value put in, sampled like the view."""
    shape = view.case.reference.shape
    outputs = [] if view.case.inside is None else view.case.inside.replaced(guesses)
    return [
        None if output is None or output.shape != shape else view.made(output) for output in outputs
    ]


def _steps(view: SampledTensors) -> Sequence[InsideStep]:
    """The ops inside the group, if the error and their number allow to tell them apart."""
    case = view.case
    if case.inside is None or case.device.size > _LARGEST or view.d.size < 8:
        return ()
    return case.inside.steps if view.visible else ()


def _best_guess(view: SampledTensors, guesses: list[_Guess]) -> Cause | None:
    """The guess that explains most, if it explains enough; others as good are named with it."""
    outcomes = _outcomes(view, [(guess.step, guess.value) for guess in guesses])
    fitting = [
        (view.left(output), guess, output)
        for output, guess in zip(outcomes, guesses, strict=True)
        if output is not None and view.fits(output)
    ]
    if not fitting:
        return None
    fitting.sort(key=lambda entry: entry[0])
    error_left, guess, output = fitting[0]
    seen = int(np.count_nonzero(view.wrong))
    if len(guesses) * max(error_left, view.noise / view.error) ** seen > LUCK:
        return None  # one of so many would fit so few elements whatever is wrong
    others = [guess for each_left, guess, _ in fitting[1:] if each_left <= error_left + CLOSE]
    also = next((other for other in others if other.label != guess.label), None)
    op = guess.step.op
    sure = view.sure if also is None else GUESS
    sure, how = view.told(output, sure)
    sentence = f"the device has {how} what comes out if {guess.words}"
    alike = {step_text(other.step) for other in others if other.label == guess.label}
    if named := sorted(alike - {step_text(guess.step)}):
        sentence += f" (or the same of {', '.join(named)})"
    if also is not None:
        sentence += f"; as well if {also.words}"
    evidence: dict[str, EvidenceValue] = {"op": op.id, "left": error_left}
    evidence["explanations"] = len(others) + 1
    if guess.number is not None:
        evidence["amount"] = guess.number
    if guess.label == "gain" and not 0.5 <= abs(guess.number or 0.0) <= 2.0:
        sure = min(sure, LIKELY)  # it saturates the ops behind it, as other faults do
    return Cause(guess.label, sentence, sure, evidence)


def _exact(view: SampledTensors) -> Iterator[_Guess]:
    lost = _wrong_slices(view)
    for step in _steps(view):
        called = step_text(step)
        for name, value in step.inputs.items():
            if value.shape == step.value.shape and value.dtype.kind == "f":
                words = f"{called} hands on its input {name}: it was not computed"
                yield _Guess(step, "missing_op", words, value)
        for name, value in step.constants.items():
            bias = _as_bias(step, name, value)
            if bias is not None:
                words = f"{called} lacks its bias {name}"
                yield _Guess(step, "lost_bias", words, step.value - bias)
        if lost is not None and step.value.ndim == view.d.ndim:
            axis, numbers = lost
            if step.value.shape[axis] == view.case.reference.shape[axis]:
                value = step.value.copy()
                value[(slice(None),) * axis + (numbers,)] = 0
                words = f"{slices_text(numbers.tolist(), axis, view)} of {called} are zero"
                yield _Guess(step, "dead_channels", words, value)
        yield from _reordered(step, called)
        yield from _functions(step, called)


def _wrong_slices(view: SampledTensors) -> tuple[int, Array] | None:
    """An axis and the few slices of it that hold all of the error; None if there are none."""
    if view.sampled:
        return None
    for axis in view.axes():
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        energies = np.sum(view.e**2, axis=rest)
        numbers = np.flatnonzero(energies > 0.01 * energies.max())
        if numbers.size <= energies.size // 4 and energies[numbers].sum() > ALL * energies.sum():
            return axis, numbers
    return None


def _reordered(step: InsideStep, called: str) -> Iterator[_Guess]:
    """The usual mix-ups of memory orders."""
    value, axes = step.value, step.value.ndim
    orders = {
        (0, *range(2, axes), 1): f"memory of channels last of {called} is read as if in order",
        (0, axes - 1, *range(1, axes - 1)): f"memory of {called} is read as channels last",
    }
    if axes == 2:
        orders = {(1, 0): f"the matrix of {called} is transposed in memory"}
    for order, words in orders.items() if axes > 1 else ():
        yield _Guess(step, "reordered", words, value.transpose(order).reshape(value.shape))
    for lag in (1, -1, 2, -2, 3, -3) if axes and value.shape[-1] > _LAGGED else ():
        words = f"{called} is shifted by {lag:+d} along its last axis"
        yield _Guess(step, "reordered", words, np.roll(value, lag, axis=-1))


def _functions(step: InsideStep, called: str) -> Iterator[_Guess]:
    """Other functions in place of an activation."""
    same = [x for x in step.inputs.values() if x.shape == step.value.shape and x.dtype.kind == "f"]
    if len(step.inputs) != _UNARY or len(same) != _UNARY or step.op.type not in ACTIVATIONS:
        return
    for word, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            output = np.asarray(function(same[0].astype(np.float64)))
        if np.isfinite(output).all() and rms(output - step.value) > 1e-3 * rms(_floats(step.value)):
            words = f"{called} is {word}"
            yield _Guess(step, "wrong_activation", words, output)


def _lines(view: SampledTensors) -> Iterator[_Guess]:
    """Steps that are off by a factor or a constant, the amount found by the secant method."""
    for step in _steps(view):
        value = _floats(step.value)
        spread = float(np.std(value)) or rms(value)
        for label, words, small, change in (
            ("gain", "is {:.5g} times what it should be", STEP, partial(_times, value)),
            ("global_offset", "is off by {:+.5g}", STEP * spread, partial(np.add, value)),
        ):
            amount = _solved(view, step, change, small)
            if amount is not None:
                number = 1.0 + amount if label == "gain" else amount
                words_of_guess = f"{step_text(step)} {words.format(number)}"
                yield _Guess(step, label, words_of_guess, change(amount), number)


def _times(value: Floats, amount: float) -> Floats:
    return value * (1.0 + amount)


def _solved(view: SampledTensors, step: InsideStep, change: Change, small: float) -> float | None:
    """The amount of *change* whose outcome is nearest to the device; None if it explains little."""
    amount, at = 0.0, view.r
    for _ in range(3):
        (moved,) = _outcomes(view, [(step, change(amount + small))])
        if moved is None:
            return None
        slope = (moved - at) / small
        power = float(np.sum(slope * slope))
        if power == 0.0:
            return None
        more = float(np.sum(slope * (view.d - at))) / power
        if rms(view.d - at - more * slope) > 0.5 * view.error:
            return None
        amount += more
        (landed,) = _outcomes(view, [(step, change(amount))])
        if landed is None:
            return None
        at = landed
        if rms(view.d - at) <= 0.003 * view.error:
            break
    return amount


def _cuts(view: SampledTensors) -> Iterator[_Guess]:
    """Tails that were not written, values cut off at a limit, flushed, or on a grid."""
    searches = [search for step in _steps(view) for search in _ways(step)]
    places = [np.linspace(search.low, search.high, _PLACES) for search in searches]
    tried = [
        (search.step, search.make(float(part)))
        for search, parts in zip(searches, places, strict=True)
        for part in parts
    ]
    lefts = np.array([_left(view, output) for output in _outcomes(view, tried)]).reshape(
        -1, _PLACES
    )
    best = np.argsort(lefts.min(axis=1))[:_REFINED] if lefts.size else ()
    for number in best:
        if lefts[number].min() > 0.9 * view.error:
            continue
        search = searches[number]
        part = _refined(view, search, places[number], lefts[number])
        yield _Guess(search.step, search.label, search.words.format(part), search.make(part), part)
    for step in _steps(view):
        largest = float(np.abs(step.value).max())
        for bits in (4, 5, 6, 7, 8) if np.isfinite(largest) and largest else ():
            unit = largest / (2 ** (bits - 1) - 1)
            words = f"{step_text(step)} lies on a grid of step {unit:.4g} ({bits} bits)"
            rounded = np.round(step.value / unit) * unit
            yield _Guess(step, "quantised_grid", words, rounded, unit)


@dataclass(frozen=True)
class _Way:
    """A fault with one parameter between ``low`` and ``high``, which is searched."""

    step: InsideStep
    label: str
    words: str
    make: Change
    low: float
    high: float


def _ways(step: InsideStep) -> Iterator[_Way]:
    value = _floats(step.value)
    flat, sizes = value.reshape(-1), np.sort(np.abs(value).reshape(-1))
    if flat.size < 16:
        return

    def tail(part: float) -> Array:
        cut = flat.copy()
        cut[round(part * flat.size) :] = 0.0
        return cut.reshape(value.shape)

    def limit(part: float) -> float:
        return float(sizes[min(int(part * sizes.size), sizes.size - 1)])

    def clipped(part: float) -> Array:
        return np.clip(value, -limit(part), limit(part))

    def flushed(part: float) -> Array:
        return np.where(np.abs(value) <= limit(part), 0.0, value)

    called = step_text(step)
    words = f"{called} is zero from {{:.3g}} of it on"
    yield _Way(step, "tail_not_written", words, tail, 0.05, 0.995)
    words = f"{called} is cut off at the size of its {{:.4g}} quantile"
    yield _Way(step, "saturation", words, clipped, 0.5, 0.9999)
    words = f"values of {called} below its {{:.3g}} quantile are zero"
    yield _Way(step, "flush_to_zero", words, flushed, 0.05, 0.9)


def _refined(view: SampledTensors, search: _Way, places: Floats, lefts: Floats) -> float:
    """The parameter at which the outcome is nearest to the device."""
    for _ in range(5):
        best = int(np.argmin(lefts))
        low, high = places[max(best - 1, 0)], places[min(best + 1, places.size - 1)]
        places = np.linspace(low, high, _PLACES)
        outputs = _outcomes(view, [(search.step, search.make(float(part))) for part in places])
        lefts = np.array([_left(view, output) for output in outputs])
    return float(places[int(np.argmin(lefts))])


def _left(view: SampledTensors, output: Floats | None) -> float:
    return float("inf") if output is None else rms(view.d - output)


def _as_bias(step: InsideStep, name: str, bias: Array) -> Array | None:
    """A constant as the bias added to each channel of an op's output; None if it is not one."""
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


CAUSES = (
    CauseRule(inside, CauseStage.FUNCTION, 10),
    CauseRule(inside_amount, CauseStage.LINE, 20),
)
