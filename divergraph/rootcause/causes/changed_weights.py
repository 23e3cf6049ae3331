"""Single weights, or rows of weights, that the device has otherwise.

An op is linear in its weights: with a weight of 1 and all others of 0 it gives how its output moves
with that weight. Such *responses* come of runs of the op itself, so nothing is known here of
strides, pads or groups; outputs that read the same inputs give their responses side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.affine import affine
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors, rms
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.reruns.operands import LARGEST
from divergraph.rootcause.causes.words import slices_text, values_text
from graphstore.model import EvidenceValue, Op

_MOST_ROWS = 4
"""Wrong slices of the output that are explained one by one."""
_MOST_WEIGHTS = 3
"""Changed weights of a row that are told."""
_MOST_RUNS, _AT_ONCE = 256, 1 << 22
"""Runs for the responses of a row, and the elements they may hold. Bounds cost."""
_ENOUGH = 8
"""With fewer wrong elements in a slice any weight explains them."""
_PROMISING = 0.5
"""The share of the error that the best explanation of a row may leave to be tried."""
_NEAR = 0.01
"""How far apart rows of a table may be, as a share of their size, to be the same in any type."""
_SURE = 0.95


@dataclass(frozen=True)
class _Weight:
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
        made = np.moveaxis(rows.reshape(shape), 0, self.axis)
        return np.ascontiguousarray(made, self.value.dtype)

    def place(self, row: int, number: int) -> list[int]:
        """The index in the weight of element *number* of a row."""
        rest = np.delete(self.value.shape, self.axis)
        found = [int(each) for each in np.unravel_index(number, tuple(rest))]
        return [*found[: self.axis], row, *found[self.axis :]]


def changed_weights(view: SampledTensors) -> Cause | None:
    """The op was computed with other values of a few weights, or of all weights that make one
    channel or read one."""
    case = view.case
    if case.reweigh is None or len(case.ops) != 1 or case.device.size > LARGEST:
        return None
    if view.error <= 3.0 * view.noise:
        return None
    line = affine(view)
    if line is not None and line.confidence > _SURE - 0.1 and "gains" not in line.evidence:
        return None  # nothing is left to explain
    for axis in view.axes():
        wrong = wrong_slices(view, axis)
        for weight in _weights(view, axis):
            if wrong.size <= min(_MOST_ROWS, view.d.shape[axis] // 2):
                found = _of_rows(view, weight, wrong.tolist())
            else:
                found = _of_a_column(view, weight, int(wrong[0]))
            if found is not None:
                return found
    return None


def changed_rows(view: SampledTensors) -> Cause | None:
    """Some rows of a table that is read by indices hold other values, wherever they are read."""
    case = view.case
    if len(case.ops) != 1 or case.device.size > LARGEST or view.error <= 3.0 * view.noise:
        return None
    for name, table in case.constants.items():
        if table.ndim < 2 or table.dtype.kind != "f" or table.size > LARGEST:
            continue
        for given in (*case.inputs.values(), *case.constants.values()):
            if given.dtype.kind in "iu" and given.shape + table.shape[1:] == case.reference.shape:
                found = _rows_read(view, name, table, given)
                if found is not None:
                    return found
    return None


def _rows_read(view: SampledTensors, name: str, table: Array, places: Array) -> Cause | None:
    """The cause where *places* are the rows that make the output, and few of them are wrong."""
    count = len(table)
    if not places.size or np.any(places >= count) or np.any(places < -count):
        return None
    read = np.where(places < 0, places + count, places).reshape(-1)
    device = view.case.device.reshape(read.size, -1).astype(np.float64)
    rows = table.reshape(count, -1).astype(np.float64)
    if not np.array_equal(
        view.case.reference.reshape(read.size, -1), table.reshape(count, -1)[read]
    ):
        return None
    off = np.sqrt(np.mean((device - rows[read]) ** 2, axis=1))
    noise = 3.0 * np.maximum(view.noise, view.unit * np.sqrt(np.mean(rows[read] ** 2, axis=1)))
    wrong = np.unique(read[off > noise])
    if not 0 < wrong.size <= min(_MOST_ROWS, (np.unique(read).size + 1) // 2):
        return None
    changed = rows.copy()
    for row in wrong:
        changed[row] = device[int(np.flatnonzero(read == row)[0])]
    if np.any(np.sqrt(np.mean((device - changed[read]) ** 2, axis=1)) > noise):
        return None  # the same row is read as different values
    said = ", ".join(_row_text(name, rows, int(row), changed[row]) for row in wrong)
    (op,), again = view.case.ops, np.isin(read, wrong).sum() > wrong.size
    return Cause(
        "wrong_weights",
        f"the device has exactly what {op.type} {op.name or op.id} gives with {said}",
        _SURE if again or device.shape[1] >= _ENOUGH else 0.6,
        {"op": op.id, "weight": name, "rows": wrong.tolist(), "left": 0.0},
    )


def _row_text(name: str, rows: Floats, row: int, found: Floats) -> str:
    """What a row of a table holds instead of its own values."""
    own, size = rows[row], rms(found)
    if not found.any():
        return f"row {row} of {name} all zero"
    near = np.sqrt(np.mean((rows - found) ** 2, axis=1))
    nearest = int(np.argmin(near))
    if nearest != row and near[nearest] <= _NEAR * size:
        return f"row {nearest} of {name} for row {row}"
    gain = float(own @ found) / float(own @ own) if own.any() else 1.0
    if rms(found - gain * own) <= _NEAR * size:
        return f"row {row} of {name} {gain:.4g} times"
    hit = np.flatnonzero(np.abs(found - own) > _NEAR * size)
    if hit.size <= _MOST_WEIGHTS:
        return values_text(name, [[row, int(each)] for each in hit], own[hit], found[hit])
    return f"other values in row {row} of {name}"


def _weights(view: SampledTensors, out: int) -> Iterator[_Weight]:
    """The weights that are as long along some axis as the output along *out*, and make its slices
    there one by one."""
    (op,), length = view.case.ops, view.case.reference.shape[out]
    if view.steps[out] != 1 or view.d.size // length < _ENOUGH:
        return
    for name, value in view.case.constants.items():
        if value.dtype.kind != "f" or value.ndim < 2 or value.size > LARGEST:
            continue
        for axis in range(value.ndim):
            found = _Weight(op, name, value, axis, out)
            if value.shape[axis] == length and _separate(view, found):
                yield found


def _separate(view: SampledTensors, weight: _Weight) -> bool:
    """Whether a row of the weight makes its slice of the output alone."""
    rows = weight.rows
    rows[0] *= 2.0
    (made,) = _run(view, weight, [rows])
    if made is None:
        return False
    moved = np.moveaxis(np.abs(made - view.r), weight.out, 0)
    least = 1e-4 * float(moved[0].max())
    return least > 0.0 and float(moved[1:].max(initial=0.0)) <= least


def _run(view: SampledTensors, weight: _Weight, trials: Sequence[Floats]) -> list[Floats | None]:
    rerun = view.case.reweigh
    assert rerun is not None
    made = rerun([{weight.name: weight.of(rows)} for rows in trials])
    shape = view.case.reference.shape
    return [view.made(each) if each is not None and each.shape == shape else None for each in made]


def _responses(view: SampledTensors, weight: _Weight, row: int) -> tuple[Floats, Floats] | None:
    """How slice *row* of the output moves with each weight of its row (one line for each), and what
    it is without any; None if that takes too many runs."""
    rows = weight.rows
    probe = np.random.default_rng(5).standard_normal(rows.shape[1])
    nothing, alike = _run(view, weight, [np.zeros_like(rows), np.tile(probe, (len(rows), 1))])
    if nothing is None or alike is None:
        return None
    flat = _lines(alike - nothing, weight.out)
    apart = np.abs(flat - flat[row]).max(axis=1)
    peers = np.flatnonzero(apart <= 1e-4 * float(np.abs(flat[row]).max()))
    count, runs = rows.shape[1], -(-rows.shape[1] // peers.size)
    if runs > _MOST_RUNS or count * flat.shape[1] > _AT_ONCE:
        return None
    found = np.zeros((count, flat.shape[1]))
    for start in range(0, count, peers.size):
        numbers = np.arange(start, min(start + peers.size, count))
        units = np.zeros_like(rows)
        units[peers[: numbers.size], numbers] = 1.0
        (made,) = _run(view, weight, [units])
        if made is None:
            return None
        found[numbers] = _lines(made - nothing, weight.out)[peers[: numbers.size]]
    return found, _lines(nothing, weight.out)[row]


def _lines(values: Floats, axis: int) -> Floats:
    """The slices of an axis, each in one line."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _of_rows(view: SampledTensors, weight: _Weight, wrong: Sequence[int]) -> Cause | None:
    rows = weight.rows
    changed, said, places = rows.copy(), list[str](), list[list[int]]()
    for row in wrong:
        responses = _responses(view, weight, row)
        if responses is None:
            return None
        found = _row(view, weight, row, *responses)
        if found is None:
            return None
        changed[row], words, hit = found
        said.append(words)
        places += hit
    (made,) = _run(view, weight, [changed])
    if made is None or not view.fits(made):
        return None
    evidence: dict[str, EvidenceValue] = {"axis": weight.out, "slices": sorted(wrong)}
    return _cause(view, weight, made, ", ".join(said), {**evidence, "places": places})


def _row(
    view: SampledTensors, weight: _Weight, row: int, responses: Floats, nothing: Floats
) -> tuple[Floats, str, list[list[int]]] | None:
    """Other weights of one row that give the device's slice, in words, and their places if they are
    few; None if nothing simple does."""
    rows = weight.rows
    own, device = rows[row], _lines(view.d, weight.out)[row]
    error = device - nothing - own @ responses
    where = slices_text([row], weight.out, view)
    power = float((own @ responses) @ (own @ responses))
    gain = 1.0 + float(error @ (own @ responses)) / power if power else 1.0
    guesses = [
        (gain * own, f"the weights of {where} {gain:.4g} times those of {weight.name}", False)
    ]
    few = _few(error, responses, max(view.noise, view.case.floor * rms(device)))
    guesses += [(own + each, "", True) for each in few[:1]]
    others = np.sum((device - nothing - rows @ responses) ** 2, axis=1)
    others[row] = np.inf
    nearest = int(np.argmin(others))
    of_other = f"the weights of {slices_text([nearest], weight.out, view)} for those of {where}"
    guesses.append((rows[nearest], of_other, False))
    guesses += [(own + each, "", True) for each in few[1:]]
    lefts = [rms(error - (values - own) @ responses) for values, _, _ in guesses]
    noise = 2.0 * max(view.noise, view.case.floor * rms(device), view.unit * rms(device))
    best = next((n for n, left in enumerate(lefts) if left <= noise), int(np.argmin(lefts)))
    if lefts[best] > max(noise, _PROMISING * rms(error)):
        return None
    values, words, single = guesses[best]
    hit = np.flatnonzero(values != own) if single else np.zeros(0, int)
    places = [weight.place(row, int(number)) for number in hit]
    return values, words or values_text(weight.name, places, own[hit], values[hit]), places


def _few(error: Floats, responses: Floats, noise: float) -> list[Floats]:
    """Changes of one weight, of two, and of three, each adding the weight that explains most."""
    power = np.sum(responses**2, axis=1)
    usable = power > 1e-9 * float(power.max(initial=0.0))
    chosen: list[int] = []
    found: list[Floats] = []
    left = error
    for _ in range(min(_MOST_WEIGHTS, int(np.count_nonzero(usable)))):
        explained = np.where(usable, (responses @ left) ** 2 / np.where(usable, power, 1.0), -1.0)
        explained[chosen] = -1.0
        chosen.append(int(np.argmax(explained)))
        amounts = np.linalg.lstsq(responses[chosen].T, error, rcond=None)[0]
        change = np.zeros(power.size)
        change[chosen] = amounts
        found.append(change)
        left = error - change @ responses
        if rms(left) <= noise:
            break
    return found


def _of_a_column(view: SampledTensors, weight: _Weight, worst: int) -> Cause | None:
    """All weights that read one channel of the input (or stand at one place of a window) are a
    multiple of what they should be, such as 0."""
    responses = _responses(view, weight, worst)
    if responses is None:
        return None
    rows, found = weight.rows, responses[0]
    error = _lines(view.e, weight.out)[worst]
    shape = np.delete(weight.value.shape, weight.axis)
    best: tuple[float, int, int, float] | None = None
    for axis, length in enumerate(shape):
        at = np.unravel_index(np.arange(rows.shape[1]), tuple(shape))[axis]
        for number in range(int(length)) if length > 1 else ():
            part = (at == number) @ (rows[worst][:, None] * found)
            power = float(part @ part)
            more = float(part @ error) / power if power else 0.0
            left = rms(error - more * part)
            if best is None or left < best[0]:
                best = left, axis, number, 1.0 + more
    if best is None or best[0] > _PROMISING * rms(error):
        return None
    _, axis, number, gain = best
    gain = 0.0 if abs(gain) < 1e-3 else gain
    at = np.unravel_index(np.arange(rows.shape[1]), tuple(shape))[axis]
    (made,) = _run(view, weight, [np.where(at == number, gain * rows, rows)])
    if made is None or not view.fits(made):
        return None
    whole = axis + (axis >= weight.axis)
    times = "left out" if gain == 0.0 else f"{gain:.4g} times"
    words = f"index {number} of axis {whole} of {weight.name} {times}"
    return _cause(view, weight, made, words, {"weight_axis": whole, "index": number, "gain": gain})


def _cause(
    view: SampledTensors,
    weight: _Weight,
    made: Floats,
    words: str,
    evidence: dict[str, EvidenceValue],
) -> Cause:
    sure, how = view.told(made, _SURE)
    op = weight.op
    return Cause(
        "wrong_weights",
        f"the device has {how} what {op.type} {op.name or op.id} gives with {words}",
        sure,
        {"op": op.id, "weight": weight.name, **evidence, "left": view.left(made)},
    )


CAUSES = (
    CauseRule(changed_rows, CauseStage.MISSING, 25),
    CauseRule(changed_weights, CauseStage.LINE, 25),
)
