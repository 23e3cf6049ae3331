"""The relation of two inputs whose values are both known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.input_relations.contract import Guess, input_relations
from divergraph.rootcause.input_relations.fits import least_squares, length
from divergraph.rootcause.values import correlation

_MOST_ARRANGED = 12
_LIKE = 0.3
"""The least correlation with the device's of an arrangement that numbers are fitted to."""
_FEW = 1 << 16
_OF_SPREAD = 0.05
"""What a relation may leave of the device's spread: a constant fits data of a large mean."""
_NEARLY = 0.3
"""What is left of the spread by a relation that is worth telling although it leaves something."""
_SAME_DATA = 0.9
"""The correlation from which inputs are one and the same image or sound, prepared otherwise."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A guess whose multiples were found: ``values`` stand for the device's, of which ``rest`` of
    the norm and ``left`` of the spread are not explained."""

    words: str
    values: Array
    parameters: int
    rest: float
    left: float


def relation(golden: Array, device: Array, rounding: float) -> str:
    """How *device* follows from *golden*, inputs of one shape that differ, in words that continue
    "the device was fed golden's x"; in words on how alike they are if it follows in no known way.

    *rounding* is the relative error up to which a relation holds.
    """
    if golden.shape != device.shape or golden.size == 0 or "c" in golden.dtype.kind:
        return ""
    first, second = (array.astype(np.float64) for array in (golden, device))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return ""
    fitted = sorted(_fits(first, second), key=lambda fit: (fit.parameters, fit.rest))
    for fit in fitted:
        if fit.rest <= rounding and fit.left <= _OF_SPREAD:
            return fit.words
    best = min(fitted, key=lambda fit: fit.left, default=None)
    if best is not None and best.words and best.left <= min(_NEARLY, _left(first, second) / 2):
        return f"nearly {best.words} ({best.left:.1%} of it is left)"
    return _likeness(golden, device, rounding)


def _fits(golden: Array, device: Array) -> Iterator[Fitted]:
    """The guesses, those first looked at in few places that leave little there."""
    few, fewer = thinned(device)
    for arranged in _likely(golden, device):
        for guesser in input_relations().valued:
            sketches = guesser(arranged.values[few], fewer)
            for number, sketch in enumerate(sketches):
                close_fit = fitted(sketch, fewer)
                if (
                    close_fit is None
                    or close_fit.left > _NEARLY
                    or not (close_fit.words or arranged.words)
                ):
                    continue
                guess = next(islice(guesser(arranged.values, device), number, None))
                fit = fitted(guess, device)
                assert fit is not None, "of more values more can be told"
                words = " and ".join(filter(None, (str(arranged.words), fit.words)))
                count = arranged.parameters + fit.parameters
                yield Fitted(words, fit.values, count, fit.rest, fit.left)


def _likely(golden: Array, device: Array) -> list[Guess]:
    """Golden's numbers as they are, and in other places where that makes them like the device's."""
    few, fewer = thinned(device)
    likely: list[tuple[float, Guess]] = []
    for guesser in input_relations().arranged:
        for guess in guesser(golden, device):
            likeness = abs(_correlation(guess.values[few], fewer))
            if likeness >= _LIKE:
                likely = sorted([*likely, (likeness, guess)], key=lambda entry: -entry[0])
                del likely[_MOST_ARRANGED:]
    return [Guess("", golden), *(guess for _, guess in likely)]


def thinned(values: Array) -> tuple[tuple[slice, ...], Array]:
    """An index of some 65536 values at most, with all indices of short axes, and these values."""
    steps = [1] * values.ndim
    while (
        prod(sizes := [-(-n // step) for n, step in zip(values.shape, steps, strict=True)]) > _FEW
    ):
        steps[sizes.index(max(sizes))] += 1
    index = tuple(slice(None, None, step) for step in steps)
    return index, values[index]


def fitted(guess: Guess, device: Array) -> Fitted | None:
    """*guess* with the multiples of its directions that bring it nearest to *device*; None if there
    are too few numbers to tell."""
    values, words = guess.values, guess.words
    is_usable = np.isfinite(values)
    for direction in guess.directions:
        is_usable &= np.isfinite(direction)
    if guess.directions:
        if np.count_nonzero(is_usable) <= 3 * len(guess.directions):
            return None
        columns = np.stack([direction[is_usable] for direction in guess.directions], axis=1)
        solution = least_squares(columns, device[is_usable] - values[is_usable])
        values = sum(
            (
                number * direction
                for number, direction in zip(solution, guess.directions, strict=True)
            ),
            values,
        )
        words = words(solution) if callable(words) else words
    assert isinstance(words, str)
    theirs, ours = device[is_usable], values[is_usable]
    size, difference = length(theirs), length(theirs - ours)
    rest = difference / size if size else float(difference > 0.0)
    return Fitted(words, values, guess.parameters, rest, _left(ours, theirs))


def _left(values: Array, device: Array) -> float:
    difference, spread = length(device - values), length(device - device.mean())
    return difference / spread if spread else float(difference > 0.0)


def _correlation(one: Array, other: Array) -> float:
    is_usable = np.isfinite(one)
    return correlation(one[is_usable], other[is_usable]) if is_usable.any() else 0.0


def _likeness(golden: Array, device: Array, rounding: float) -> str:
    first, second = (array.astype(np.float64) for array in (golden, device))
    differs = np.abs(first - second) > rounding * np.abs(first)
    other = int(np.count_nonzero(differs))
    if 2 * other < golden.size:
        place = tuple(int(index) for index in np.argwhere(differs)[0])
        return f"with other values in {other} of {golden.size} places, the first at {list(place)}"
    alike = _correlation(first, second)
    if alike >= _SAME_DATA:
        return f"prepared in another way (correlation {alike:.4f})"
    return f"replaced by other data (correlation {alike:.2f})"
