"""Weights or a bias of a few outputs, where too few values of each tell which of them changed.

A product whose output is one sample has one value for each row of its weights. That value is wrong
if one weight of the row is, or some or all of them, or the bias: each explains it with some amount.
What can be known is the row, and how far each of them would have to be off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors
from divergraph.rootcause.causes.limits import FEW, GUESS, PART, ROUNDS, STEP
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.reruns.operands import LARGEST
from divergraph.rootcause.causes.words import slices_name, slices_text, values_text
from divergraph.text.words import counted

_MOST_ROWS = 4
"""Rows that are few."""


@dataclass(frozen=True)
class _Part:
    """A constant with one slice along ``along`` for each slice of the output's ``axis``: a bias, or
    weights, of which the ``rows`` are scaled."""

    name: str
    value: Array
    along: int
    axis: int
    rows: Sequence[int]

    @property
    def is_bias(self) -> bool:
        """Whether it has a single value for each slice."""
        return int(self.value.shape[self.along]) == self.value.size

    def moved(self, amounts: Floats) -> Array:
        """The constant with *amounts* added to a bias, or to the factor of each row."""
        changed = np.moveaxis(self.value.astype(np.float64), self.along, 0)
        for row, amount in zip(self.rows, amounts, strict=True):
            changed[row] = changed[row] + amount if self.is_bias else changed[row] * (1.0 + amount)
        return np.moveaxis(changed, 0, self.along).astype(self.value.dtype)

    def words(self, amounts: Floats) -> str:
        """What of it has changed."""
        if not self.is_bias:
            factors = ", ".join(f"{1.0 + amount:.4g}" for amount in amounts)
            return f"the weights in {self.name} {factors} times"
        own = self.value.reshape(-1)[list(self.rows)]
        return values_text(self.name, [[row] for row in self.rows], own, own + amounts)


def wrong_parameters(view: SampledTensors) -> Cause | None:
    """A few outputs of a product are wrong, and their values are too few to tell more."""
    case, axis = view.case, next(iter(view.axes()), None)
    if axis is None or view.sampled or not (case.linear and view.visible):
        return None
    length = view.d.shape[axis]
    values = view.d.size // length
    rows = np.sort(wrong_slices(view, axis)).tolist()
    if values >= FEW or not 0 < len(rows) <= min(_MOST_ROWS, max(1, int(PART * length))):
        return None
    parts = list(_parts(view, axis, rows))
    if all(part.is_bias for part in parts):
        return None
    solved = [(part, amounts) for part in parts if (amounts := _solved(view, part)) is not None]
    words_of_parts = [part.words(amounts) for part, amounts in solved]
    words_of_parts.append("other values of one or some of the weights")
    where, are = slices_text(rows, axis, view), "is" if len(rows) == 1 else "are"
    return Cause(
        "wrong_parameters",
        f"only {where} {are} wrong, as with {' or '.join(words_of_parts)}; "
        f"{counted(values, 'value')} of each {slices_name(axis, view, 1)} cannot tell which, "
        "nor whether a bit flipped or another op wrote there",
        GUESS,  # the value may as well have a flipped bit, or have been overwritten
        {
            "axis": axis,
            "slices": rows,
            "of": length,
            "alternatives": {part.name: amounts.tolist() for part, amounts in solved},
        },
    )


def _parts(view: SampledTensors, axis: int, rows: Sequence[int]) -> Iterator[_Part]:
    """The weights and biases with a slice for each of the output, and no other constant."""
    length = view.d.shape[axis]
    for name, value in view.case.constants.items():
        if value.dtype.kind == "f" and value.size <= LARGEST and length in value.shape:
            along = max(n for n in range(value.ndim) if value.shape[n] == length)
            yield _Part(name, value, along, axis, rows)


def _solved(view: SampledTensors, part: _Part) -> Floats | None:
    """The amounts with which the device's values come out, by the secant method; None if there are
    none. Each moves its own slice of the output alone."""
    amounts: Floats = np.zeros(len(part.rows))
    at = _run(view, part, amounts)
    size = float(np.abs(part.value).max()) if part.is_bias else 1.0
    step = STEP * (size or 1.0)
    for _ in range(ROUNDS):
        moved = _run(view, part, amounts + step)
        if moved is None or at is None:
            return None
        slope, gap = (_lines(array, part) for array in (moved - at, view.d - at))
        power = np.sum(slope * slope, axis=1)
        if np.any(power == 0.0):
            return None
        amounts += step * np.sum(slope * gap, axis=1) / power
        at = _run(view, part, amounts)
        if at is not None and view.explains(at):
            return amounts
    return None


def _run(view: SampledTensors, part: _Part, amounts: Floats) -> Floats | None:
    rerun = view.case.reweigh
    (output,) = rerun([{part.name: part.moved(amounts)}]) if rerun is not None else (None,)
    if output is None or output.shape != view.case.reference.shape:
        return None
    return view.made(output)


def _lines(values: Floats, part: _Part) -> Floats:
    """The slices that are wrong, each in one line."""
    moved: Floats = np.moveaxis(values, part.axis, 0)[list(part.rows)]
    return moved.reshape(len(part.rows), -1)


CAUSES = (CauseRule(wrong_parameters, CauseStage.PART, 5, {"wrong_parameters": GUESS}),)
