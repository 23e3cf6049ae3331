"""Single weights, or rows of weights, that the device has otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.affine import affine
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import (
    Array,
    Cause,
    Floats,
    SampledTensors,
    has_weights,
    rms,
)
from divergraph.rootcause.causes.limits import CLOSE, FEW, GUESS, LIKELY, NO_GAIN, SURE
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.reruns.operands import LARGEST
from divergraph.rootcause.causes.reruns.products import products
from divergraph.rootcause.causes.reruns.weight_rows import (
    PROMISING,
    OtherRow,
    RowWeight,
    changed_row,
    lines,
    responses_of,
    run,
    separate,
)
from divergraph.rootcause.causes.words import slices_text, values_text
from graphstore.model import Evidence, EvidenceValue

_MOST_ROWS = 4
"""Wrong slices of the output that are explained one by one."""
_MOST_VALUES = 3
"""Changed values of a row of a table that are told one by one."""


@dataclass(frozen=True)
class _Changed:
    """Other ``rows`` of a weight, in words, and how sure they are if they explain the device."""

    weight: RowWeight
    rows: Floats
    words: str
    evidence: Evidence
    label: str = "wrong_weights"
    sure: float = SURE
    exchanged: _Changed | None = None
    """As well with the weights lost here in the slice theirs were taken from, which may be hidden
    by what follows."""


def changed_weights(view: SampledTensors) -> Cause | None:
    """The op was computed with other values of a few weights, or of all weights that make one
    channel or read one. In a group it is looked for in what its output shows of the op's."""
    case = view.case
    if case.reweigh is None or case.device.size > LARGEST or not view.visible or _is_line(view):
        return None
    for product in products(view):
        changed = _changed(product) if product.visible else None
        tried = [] if changed is None else [changed, changed.exchanged]
        causes = [
            cause for changed in tried if changed and (cause := _cause(view, changed)) is not None
        ]
        if causes:
            return min(causes, key=lambda cause: float(str(cause.evidence["left"])))
    return None


def _is_line(view: SampledTensors) -> bool:
    """Whether a line says all, and nothing of gains, which weights may explain."""
    line = affine(view)
    return line is not None and line.confidence >= SURE and "gains" not in line.evidence


def _changed(view: SampledTensors) -> _Changed | None:
    """The weights with which the only op of the case gives what the device has."""
    for axis in view.axes():
        wrong = wrong_slices(view, axis)
        for weight in _weights(view, axis) if wrong.size else ():
            if wrong.size <= min(_MOST_ROWS, view.d.shape[axis] // 2):
                changed = _of_rows(view, weight, wrong.tolist())
            else:
                changed = _of_a_column(view, weight, int(wrong[0]))
            if changed is not None:
                return changed
    return None


def changed_rows(view: SampledTensors) -> Cause | None:
    """Some rows of a table that is read by indices hold other values, wherever they are read."""
    case = view.case
    if len(case.ops) != 1 or case.device.size > LARGEST or not view.visible:
        return None
    for name, table in case.constants.items():
        if table.ndim < 2 or table.dtype.kind != "f" or table.size > LARGEST:
            continue
        for table_places in (*case.inputs.values(), *case.constants.values()):
            if (
                table_places.dtype.kind in "iu"
                and table_places.shape + table.shape[1:] == case.reference.shape
            ):
                cause = _rows_read(view, name, table, table_places)
                if cause is not None:
                    return cause
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
    rows_text = ", ".join(_row_text(name, rows, int(row), changed[row]) for row in wrong)
    (op,), again = view.case.ops, np.isin(read, wrong).sum() > wrong.size
    return Cause(
        "wrong_weights",
        f"the device has exactly what {op.type} {op.name or op.id} gives with {rows_text}",
        SURE if again or device.shape[1] >= FEW else GUESS,
        {"op": op.id, "weight": name, "rows": wrong.tolist(), "left": 0.0},
    )


def _row_text(name: str, rows: Floats, row: int, values: Floats) -> str:
    """What a row of a table holds instead of its own values."""
    own, size = rows[row], rms(values)
    if not values.any():
        return f"row {row} of {name} all zero"
    distances = np.sqrt(np.mean((rows - values) ** 2, axis=1))
    nearest = int(np.argmin(distances))
    if nearest != row and distances[nearest] <= CLOSE * size:
        return f"row {nearest} of {name} for row {row}"
    gain = float(own @ values) / float(own @ own) if own.any() else 1.0
    if rms(values - gain * own) <= CLOSE * size:
        return f"row {row} of {name} {gain:.4g} times"
    hit = np.flatnonzero(np.abs(values - own) > CLOSE * size)
    if hit.size <= _MOST_VALUES:
        return values_text(name, [[row, int(match)] for match in hit], own[hit], values[hit])
    return f"other values in row {row} of {name}"


def _weights(view: SampledTensors, out: int) -> Iterator[RowWeight]:
    """The weights that are as long along some axis as the output along *out*, and make its slices
    there one by one."""
    (op,), length = view.case.ops, view.case.reference.shape[out]
    if view.steps[out] != 1 or view.d.size // length < 2:
        return
    for name, value in view.case.constants.items():
        if value.dtype.kind != "f" or value.ndim < 2 or value.size > LARGEST:
            continue
        for axis in range(value.ndim):
            row_weight = RowWeight(op, name, value, axis, out)
            if value.shape[axis] == length and separate(view, row_weight):
                yield row_weight


def _of_rows(view: SampledTensors, weight: RowWeight, wrong: Sequence[int]) -> _Changed | None:
    rows = weight.rows
    changed, other_rows = rows.copy(), list[OtherRow]()
    for row in wrong:
        responses = responses_of(view, weight, row)
        guess = None if responses is None else changed_row(view, weight, row, *responses)
        if guess is None:
            return None
        changed[row] = guess.values
        other_rows.append(guess)
    (output,) = run(view, weight, [changed])
    if output is None or not view.fits(output):
        return None
    places = [place for guess in other_rows for place in guess.places]
    evidence: Evidence = {"axis": weight.out, "slices": sorted(wrong), "places": places}
    words = ", ".join(guess.words for guess in other_rows)
    sure = min(SURE if guess.alone else LIKELY for guess in other_rows)
    dead = all(guess.label == "dead_channels" for guess in other_rows)
    label = "dead_channels" if dead else "wrong_weights"
    exchanged = _exchanged(view, weight, wrong, other_rows)
    return _Changed(weight, changed, words, evidence, label, sure, exchanged)


def _exchanged(
    view: SampledTensors, weight: RowWeight, wrong: Sequence[int], other_rows: Sequence[OtherRow]
) -> _Changed | None:
    """The change where the only wrong slice has the weights of another, which has its own."""
    other = other_rows[0].row_of
    if len(wrong) > 1 or other is None:
        return None
    pair, rows = [wrong[0], other], weight.rows
    rows[pair] = rows[pair[::-1]]
    words = f"the weights of {slices_text(pair, weight.out, view)} exchanged"
    return _Changed(weight, rows, words, {"axis": weight.out, "slices": sorted(pair)})


def _of_a_column(view: SampledTensors, weight: RowWeight, worst: int) -> _Changed | None:
    """All weights that read one channel of the input (or stand at one place of a window) are a
    multiple of what they should be, such as 0."""
    responses = responses_of(view, weight, worst)
    if responses is None:
        return None
    rows, response = weight.rows, responses[0]
    error = lines(view.e, weight.out)[worst]
    shape = np.delete(weight.value.shape, weight.axis)
    best: tuple[float, int, int, float] | None = None
    for axis, length in enumerate(shape):
        at = np.unravel_index(np.arange(rows.shape[1]), tuple(shape))[axis]
        for number in range(int(length)) if length > 1 else ():
            part = (at == number) @ (rows[worst][:, None] * response)
            power = float(part @ part)
            more = float(part @ error) / power if power else 0.0
            remaining = rms(error - more * part)
            if best is None or remaining < best[0]:
                best = remaining, axis, number, 1.0 + more
    if best is None or best[0] > PROMISING * rms(error):
        return None
    _, axis, number, gain = best
    gain = 0.0 if abs(gain) < NO_GAIN else gain
    at = np.unravel_index(np.arange(rows.shape[1]), tuple(shape))[axis]
    changed = np.where(at == number, gain * rows, rows)
    (output,) = run(view, weight, [changed])
    if output is None or not view.fits(output):
        return None
    weight_axis = axis + (axis >= weight.axis)
    times = "left out" if gain == 0.0 else f"{gain:.4g} times"
    words = f"index {number} of axis {weight_axis} of {weight.name} {times}"
    evidence: Evidence = {"weight_axis": weight_axis, "index": number, "gain": gain}
    return _Changed(weight, changed, words, evidence)


def _cause(view: SampledTensors, changed: _Changed) -> Cause | None:
    """The cause, if the whole of *view* with these weights is what the device has."""
    (output,) = run(view, changed.weight, [changed.rows])
    if output is None or not view.fits(output):
        return None
    sure, how = view.told(output, changed.sure)
    op, weight, label = changed.weight.op, changed.weight, changed.label
    evidence: dict[str, EvidenceValue] = {"op": op.id, "weight": weight.name, **changed.evidence}
    if label == "wrong_weights" and not has_weights(op.type):
        # One of it makes one value of the output: a bias or a scale of several axes, no weight.
        label, places = "wrong_constant", changed.evidence.get("places", [])
        evidence = {
            "op": op.id,
            "constant": weight.name,
            "places": places,
            "shape": list(weight.value.shape),
        }
    return Cause(
        label,
        f"the device has {how} what {op.type} {op.name or op.id} gives with {changed.words}",
        sure,
        {**evidence, "left": view.left(output)},
    )


CAUSES = (
    CauseRule(changed_rows, CauseStage.MISSING, 25),
    CauseRule(changed_weights, CauseStage.LINE, 25),
)
