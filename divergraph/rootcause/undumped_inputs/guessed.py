"""The relations to golden's input that the outputs of its readers bear out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.input_relations.contract import Guess, input_relations
from divergraph.rootcause.input_relations.fits import correlation, least_squares, length
from divergraph.rootcause.input_relations.places import likeliest_shift, nearest_slices, shifts
from divergraph.rootcause.undumped_inputs.readers import Reader

_MOST_OP_RUNS = 8000
"""Ops run for arrangements of one input. Bounds cost: a group may be a whole model."""
_ARRANGED_FITTED = 4
"""Arrangements that other numbers are tried in, beside golden's own."""
_MOST_DIRECTIONS = 16
_TURNS = 6
_CHANNELS_LEAST = 2
"""Axes before are those of the batch and the channels."""
_STEP = 0.05
_NEAR = 3.0
"""How many times over the limit of suspects a guess may be that all tolerances are asked about."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A guess, words and ``values`` complete, with the suspicion it leaves at the worst reader.
    ``is_arranged``: golden's numbers are in other places."""

    words: str
    values: Array
    parameters: int
    suspicion: float
    is_gain: bool
    is_arranged: bool


def likely_guesses(readers: Sequence[Reader]) -> Iterator[Tried]:
    """The guesses that nearly explain all *readers* of one input: arrangements, then those with
    fitted numbers, made when they are asked for."""
    golden = readers[0].golden.astype(np.float64)
    size = max(len(reader.group.ops) for reader in readers)
    arranged = list(islice(_arranged(golden, readers), _MOST_OP_RUNS // size))
    made = [reader.outputs([each.values for each in arranged]) for reader in readers]
    tried = [
        Tried(
            str(guess.words),
            guess.values,
            guess.parameters,
            worst,
            guess.is_gain,
            is_arranged=not guess.is_gain,
        )
        for number, guess in enumerate(arranged)
        if (worst := _worst(readers, [outputs[number] for outputs in made])) < np.inf
    ]
    yield from _near(tried)
    likeness = [
        min(
            _likeness(reader, outputs[number])
            for reader, outputs in zip(readers, made, strict=True)
        )
        for number in range(len(arranged))
    ]
    order = sorted(range(len(arranged)), key=lambda number: -likeness[number])
    for start in (Guess("", golden), *(arranged[each] for each in order[:_ARRANGED_FITTED])):
        yield from _near(list(_fitted(start, readers)))


def _near(tried: Sequence[Tried]) -> list[Tried]:
    near = [each for each in tried if each.suspicion <= _NEAR * calibration.SUSPECT]
    return sorted(near, key=lambda each: (each.parameters, each.suspicion))


def _arranged(golden: Array, readers: Sequence[Reader]) -> Iterator[Guess]:
    """Golden's numbers in other places; those that depend on the device's as its outputs show."""
    yield Guess("replaced by zeros", np.zeros_like(golden), is_gain=True)
    for guesser in input_relations().arranged:
        yield from guesser(golden, None)
    for reader in readers:
        yield from _as_outputs_show(golden, reader)


def _as_outputs_show(golden: Array, reader: Reader) -> Iterator[Guess]:
    device, reference = (x.astype(np.float64) for x in (reader.device, reader.reference))
    if not np.isfinite(device).all() or not np.isfinite(reference).all() or not golden.ndim:
        return
    shape = golden.shape
    if device.ndim and device.shape[0] == shape[0] > 1:
        order = nearest_slices(reference, device, 0)
        if order is not None:
            said = ", ".join(map(str, order[:8]))
            words = f"with the indices {said} in the places 0, 1, 2, ... of axis 0 (the batch)"
            yield Guess(words, golden.take(order, 0), 1)
    both = range(1, min(golden.ndim, device.ndim))
    axes = tuple(axis for axis in both if shape[axis] >= device.shape[axis] > 4)
    if not axes or len(axes) > 2:
        return
    seen = likeliest_shift(reference, device, axes)
    strides = [round(shape[axis] / device.shape[axis]) for axis in axes]
    near = [
        range(step * stride - stride + 1, step * stride + stride)
        for step, stride in zip(seen, strides, strict=True)
    ]
    for steps in islice(product(*near), 64):
        if any(steps) and all(abs(n) < shape[axis] for n, axis in zip(steps, axes, strict=True)):
            yield from (each for each in shifts(golden, axes, steps) if each.parameters == 1)


def _worst(readers: Sequence[Reader], outputs: Sequence[Array | None]) -> float:
    pairs = zip(readers, outputs, strict=True)
    return max(reader.suspicion(output) for reader, output in pairs)


def _likeness(reader: Reader, output: Array | None) -> float:
    if output is None:
        return -1.0
    use = np.isfinite(output) & np.isfinite(reader.device)
    # Other numbers in the right places move channels as a whole.
    place = tuple(range(_CHANNELS_LEAST, output.ndim)) or None
    one, other = (
        np.where(use, x, 0.0) - np.where(use, x, 0.0).mean(axis=place, keepdims=True)
        for x in (output.astype(np.float64), reader.device.astype(np.float64))
    )
    return abs(correlation(one, other))


def _fitted(start: Guess, readers: Sequence[Reader]) -> Iterator[Tried]:
    """The guesses of other numbers in the places of *start*, their multiples fitted to what the
    readers put out."""
    for guesser in input_relations().valued:
        for guess in guesser(start.values, None):
            if not 0 < len(guess.directions) <= _MOST_DIRECTIONS:
                continue
            # The changes of quantised outputs are coarse; those of exact ones go on beyond a range.
            for in_steps in dict.fromkeys((False, any(each.steps for each in readers))):
                found = _multiples(guess, readers, in_steps=in_steps)
                if found is not None:
                    yield _tried(start, guess, found, readers)


def _tried(start: Guess, guess: Guess, found: Array, readers: Sequence[Reader]) -> Tried:
    values = _moved(guess, found)
    worst = _worst(readers, [reader.outputs([values])[0] for reader in readers])
    words = guess.words(found) if callable(guess.words) else guess.words
    return Tried(
        " and ".join(filter(None, (str(start.words), words))),
        values,
        start.parameters + guess.parameters,
        worst,
        guess.is_gain and not start.words,
        is_arranged=bool(start.words),
    )


def _moved(guess: Guess, found: Array) -> Array:
    pairs = zip(found, guess.directions, strict=True)
    return sum((number * each for number, each in pairs), guess.values)


def _multiples(guess: Guess, readers: Sequence[Reader], *, in_steps: bool) -> Array | None:
    """The multiples of a guess's directions by Gauss and Newton: one turn for linear readers.
    *in_steps*: the changes are those of quantised outputs."""
    count = len(guess.directions)
    golden = readers[0].golden.astype(np.float64)
    usual = _usual(golden) or 1.0
    sizes = np.array([usual / (_usual(each) or 1.0) for each in guess.directions])
    # From what golden was fed, as far as the directions reach it.
    columns = np.stack([each.reshape(-1) for each in guess.directions], axis=1)
    missing = (golden - guess.values).reshape(-1)
    found: Array = least_squares(columns, missing)
    before = np.inf
    for _ in range(_TURNS):
        inputs = [_moved(guess, found)]
        for number in range(count):
            step = np.zeros(count)
            step[number] = _STEP * sizes[number]
            inputs.append(_moved(guess, found + step))
        rows, rest = _equations(readers, inputs, in_steps=in_steps)
        if rows is None or rest.size <= 3 * count or not np.isfinite(rest).all():
            return None
        left = length(rest)
        if left >= 0.999 * before:
            break
        before = left
        slopes = rows / (_STEP * sizes)
        if not np.isfinite(slopes).all():
            return None
        found = found + least_squares(slopes, rest)
    return found


def _usual(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _equations(
    readers: Sequence[Reader], inputs: Sequence[Array], *, in_steps: bool
) -> tuple[Array | None, Array]:
    """How the outputs of *readers* change from the first of *inputs* to the others, by place and
    input; and how far the device's are from the first. Both in units of the readers' size."""
    rows: list[Array] = []
    rest: list[Array] = []
    for reader in readers:
        outputs = reader.outputs(inputs) if in_steps else reader.before_cut(inputs)
        if any(each is None for each in outputs):
            return None, np.zeros(0)
        first, *others = (np.asarray(each, np.float64)[reader.known] for each in outputs)
        device = reader.device[reader.known].astype(np.float64)
        size = length(device) or 1.0
        rows.append(np.stack([(each - first) / size for each in others], axis=1))
        off = 0.0 if in_steps else reader.arithmetic_error(inputs[0])[reader.known]
        rest.append((device - first - off) / size)
    return np.concatenate(rows), np.concatenate(rest)
