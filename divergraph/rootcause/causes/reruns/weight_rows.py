"""How an output moves with the weights of one of its slices, and which others give the device's.

An op is linear in its weights: with a weight of 1 and all others of 0 it gives how its output moves
with that weight. Such *responses* come of runs of the op itself, so nothing is known here of
strides, pads or groups; outputs that read the same inputs give their responses side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.evidence import Array, Floats, SampledTensors, rms
from divergraph.rootcause.causes.limits import FEW, LUCK, NO_GAIN
from divergraph.rootcause.causes.words import slices_text, values_text
from divergraph.rootcause.values import TINY
from divergraph.text.words import counted
from graphstore.model import Op

_MOST_WEIGHTS = 3
"""Changed weights of a row that are told."""
_MOST_RUNS, _AT_ONCE = 256, 1 << 22
"""Runs for the responses of a row, and the elements they may hold. Bounds cost."""
PROMISING = 0.5
"""The share of the error that the best explanation of a row may leave to be tried."""
_LITTLE_MORE = 1.5
"""How much more than the best explanation a simpler one, with fewer numbers, may leave."""


@dataclass(frozen=True)
class RowWeight:
    """A weight whose slices along ``axis`` make the slices of the output along ``out``."""

    op: Op
    name: str
    value: Array
    axis: int
    out: int

    @property
    def rows(self) -> Floats:
        """The weights of each slice of the output, one row for each."""
        moved = np.moveaxis(self.value, self.axis, 0)
        return np.asarray(moved.reshape(moved.shape[0], -1), np.float64)

    def of(self, rows: Floats) -> Array:
        """The weight with these rows."""
        shape = np.moveaxis(self.value, self.axis, 0).shape
        array = np.moveaxis(rows.reshape(shape), 0, self.axis)
        return np.ascontiguousarray(array, self.value.dtype)

    def place(self, row: int, number: int) -> list[int]:
        """The index in the weight of element *number* of a row."""
        rest = np.delete(self.value.shape, self.axis)
        index = [int(number) for number in np.unravel_index(number, tuple(rest))]
        return [*index[: self.axis], row, *index[self.axis :]]


@dataclass(frozen=True)
class OtherRow:
    """Other ``values`` of a row of weights, in words. ``tried`` guesses of its kind were looked at,
    each with so many numbers ``fitted`` to the error; ``places`` are those of single weights."""

    values: Floats
    words: str
    tried: float
    fitted: int = 1
    places: Sequence[list[int]] = ()
    label: str = "wrong_weights"
    alone: bool = True
    """Whether no other guess of its kind does as well."""
    row_of: int | None = None
    """The slice whose weights these are."""


def separate(view: SampledTensors, weight: RowWeight) -> bool:
    """Whether a row of the weight makes its slice of the output alone."""
    rows = weight.rows
    rows[0] *= 2.0
    (output,) = run(view, weight, [rows])
    if output is None:
        return False
    moved = np.moveaxis(np.abs(output - view.r), weight.out, 0)
    limit = 1e-4 * float(moved[0].max())
    return limit > 0.0 and float(moved[1:].max(initial=0.0)) <= limit


def run(view: SampledTensors, weight: RowWeight, trials: Sequence[Floats]) -> list[Floats | None]:
    """The whole output for each of *trials* of the weight's rows; None where it cannot be run."""
    rerun = view.case.reweigh
    assert rerun is not None
    outputs = rerun([{weight.name: weight.of(rows)} for rows in trials])
    shape = view.case.reference.shape
    return [
        view.made(output) if output is not None and output.shape == shape else None
        for output in outputs
    ]


def responses_of(view: SampledTensors, weight: RowWeight, row: int) -> tuple[Floats, Floats] | None:
    """How slice *row* of the output moves with each weight of its row (one line for each), and what
    it is without any; None if that takes too many runs."""
    rows = weight.rows
    probe = np.random.default_rng(5).standard_normal(rows.shape[1])
    nothing, alike = run(view, weight, [np.zeros_like(rows), np.tile(probe, (len(rows), 1))])
    if nothing is None or alike is None:
        return None
    flat = lines(alike - nothing, weight.out)
    distances = np.abs(flat - flat[row]).max(axis=1)
    peers = np.flatnonzero(distances <= 1e-4 * float(np.abs(flat[row]).max()))
    count, runs = rows.shape[1], -(-rows.shape[1] // peers.size)
    if runs > _MOST_RUNS or count * flat.shape[1] > _AT_ONCE:
        return None
    responses = np.zeros((count, flat.shape[1]))
    for start in range(0, count, peers.size):
        numbers = np.arange(start, min(start + peers.size, count))
        units = np.zeros_like(rows)
        units[peers[: numbers.size], numbers] = 1.0
        (output,) = run(view, weight, [units])
        if output is None:
            return None
        responses[numbers] = lines(output - nothing, weight.out)[peers[: numbers.size]]
    return responses, lines(nothing, weight.out)[row]


def lines(values: Floats, axis: int) -> Floats:
    """The slices of an axis, each in one line."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def changed_row(
    view: SampledTensors, weight: RowWeight, row: int, responses: Floats, nothing: Floats
) -> OtherRow | None:
    """Other weights of one row that give the device's slice; None if nothing simple does."""
    own, device = weight.rows[row], lines(view.d, weight.out)[row]
    error = device - nothing - own @ responses
    noise = max(view.noise, view.case.floor * rms(device), view.unit * rms(device))
    seen = int(np.count_nonzero(np.abs(error) > noise))
    possible: list[tuple[float, OtherRow]] = []
    for guess in _guesses(view, weight, row, responses, error, noise):
        error_left = rms(error - (guess.values - own) @ responses)
        share = max(error_left, noise) / rms(error)
        if seen < FEW and guess.tried * share ** max(seen - guess.fitted, 0) > LUCK:
            continue  # one of so many would fit so few elements whatever is wrong
        if error_left <= 2.0 * noise:
            return guess
        possible.append((error_left, guess))
    smallest = min((error_left for error_left, _ in possible), default=math.inf)
    if smallest > PROMISING * rms(error):
        return None
    return next(guess for error_left, guess in possible if error_left <= _LITTLE_MORE * smallest)


def _guesses(
    view: SampledTensors,
    weight: RowWeight,
    row: int,
    responses: Floats,
    error: Floats,
    noise: float,
) -> Iterator[OtherRow]:
    """What may have become of a row, the simplest first."""
    rows = weight.rows
    own, where = rows[row], slices_text([row], weight.out, view)
    power = float((own @ responses) @ (own @ responses))
    gain = 1.0 + float(error @ (own @ responses)) / power if power else 1.0
    if abs(gain) < NO_GAIN:
        none = f"all weights of {where} in {weight.name} zero"
        yield OtherRow(0.0 * own, none, 1, 0, label="dead_channels")
    yield OtherRow(gain * own, f"the weights of {where} {gain:.4g} times those of {weight.name}", 1)
    alike = responses.sum(axis=0)
    for start, words in (
        (0.0 * own, f"all weights of {where} in {weight.name} {{:.4g}}"),
        (own, f"{{:.4g}} added to the weights of {where} in {weight.name}"),
    ):
        # A scale too small for its format makes all weights of a slice one value, and a wrong zero
        # point moves them all.
        more = float((error - (start - own) @ responses) @ alike) / max(float(alike @ alike), TINY)
        yield OtherRow(start + more, words.format(more), 1)
    few = _few(error, responses, noise)
    yield from (_singles(view, weight, row, change, responses, error) for change in few[:1])
    others = np.sum((error - (rows - own) @ responses) ** 2, axis=1)
    others[row] = np.inf
    nearest = int(np.argmin(others))
    of_other = f"the weights of {slices_text([nearest], weight.out, view)} for those of {where}"
    yield OtherRow(rows[nearest], of_other, len(rows), 0, row_of=nearest)
    yield from (_singles(view, weight, row, change, responses, error) for change in few[1:])


def _singles(
    view: SampledTensors,
    weight: RowWeight,
    row: int,
    change: Floats,
    responses: Floats,
    error: Floats,
) -> OtherRow:
    """The guess that a few weights of a row *change*; of a single one, whether others would do."""
    own, hit = weight.rows[row], np.flatnonzero(change)
    places = [weight.place(row, int(number)) for number in hit]
    words = values_text(weight.name, places, own[hit], (own + change)[hit])
    count = change.size**hit.size / math.factorial(hit.size)
    alike = 0
    if hit.size == 1:
        power = np.maximum(np.sum(responses**2, axis=1), TINY)
        lefts = rms(error) ** 2 - (responses @ error) ** 2 / power / error.size
        noise = max(view.noise, view.unit * rms(view.d))
        alike = int(np.count_nonzero(lefts <= max(1.5 * float(lefts.min()), noise**2))) - 1
    if alike:
        words += f" (or one of {counted(alike, 'other weight')})"
    return OtherRow(own + change, words, count, int(hit.size), places, alone=not alike)


def _few(error: Floats, responses: Floats, noise: float) -> list[Floats]:
    """Changes of one weight, of two, and of three, each adding the weight that explains most."""
    power = np.sum(responses**2, axis=1)
    usable = power > 1e-9 * float(power.max(initial=0.0))
    chosen: list[int] = []
    changes: list[Floats] = []
    error_left = error
    for _ in range(min(_MOST_WEIGHTS, int(np.count_nonzero(usable)))):
        explained = np.where(
            usable, (responses @ error_left) ** 2 / np.where(usable, power, 1.0), -1.0
        )
        explained[chosen] = -1.0
        chosen.append(int(np.argmax(explained)))
        amounts = np.linalg.lstsq(responses[chosen].T, error, rcond=None)[0]
        change = np.zeros(power.size)
        change[chosen] = amounts
        changes.append(change)
        error_left = error - change @ responses
        if rms(error_left) <= noise:
            break
    return changes
