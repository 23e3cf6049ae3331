"""The values of a tensor pair as pictures: how large the errors are, where they are, and the
device's values over golden's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.ask.questions.tensor import TensorPicture
from divergraph.ask.tensor_values import TensorValues
from divergraph.dump_diff.error_picture import ErrorMap, ValueScatter
from divergraph.text.numbers import short

_CELLS = 40
_MAP = 320
SHADES = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """So many elements; ``share`` is that of the largest bar, on a scale of logarithms."""

    label: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class ShadedCell:
    """A rectangle; ``shade`` from 0 to ``SHADES`` - 1, ``text`` says what it stands for."""

    x: float
    y: float
    width: float
    height: float
    shade: int
    text: str


@dataclass(frozen=True, slots=True)
class CellPicture:
    """Rectangles on an area of so many pixels, with the names of both axes and of their ends."""

    title: str
    across: str
    down: str
    low: str
    high: str
    cells: Sequence[ShadedCell]
    size: int = _MAP


@dataclass(frozen=True, slots=True)
class TensorPictures:
    """All pictures of one tensor; those that make no sense for it are left out."""

    bars: Sequence[Bar]
    maps: Sequence[CellPicture]
    is_apart: bool
    where_bad: str


def tensor_pictures(answer: TensorPicture) -> TensorPictures:
    """The pictures of an answer."""
    values, picture = answer.values, answer.picture
    maps = []
    axes = [axis for axis in picture.axes if len(axis) == 2][:1] or picture.axes[:1]
    for chosen in axes:
        error_map = values.error_map(chosen, [_CELLS] * len(chosen))
        maps.append(_error_cells(error_map, values))
    if picture.scatter is not None:
        maps.append(_value_cells(picture.scatter))
    where = picture.inspection.where_bad
    return TensorPictures(_bars(answer), maps, picture.is_apart, where)


def _bars(answer: TensorPicture) -> list[Bar]:
    histogram = answer.picture.inspection.histogram
    decades = histogram.decades
    counted = [("equal", histogram.equal)]
    if decades:
        steps = range(min(decades), max(decades) + 1)
        counted += [(f"1e{decade}", decades.get(decade, 0)) for decade in steps]
    if histogram.nonfinite:
        counted.append(("NaN, Inf", histogram.nonfinite))
    highest = math.log1p(max(count for _, count in counted)) or 1.0
    return [Bar(label, count, math.log1p(count) / highest) for label, count in counted]


def _error_cells(error_map: ErrorMap, values: TensorValues) -> CellPicture:
    means = error_map.means if error_map.means.ndim == 2 else error_map.means.reshape(1, -1)
    names = [_axis(axis, values) for axis in error_map.axes]
    steps = error_map.steps if len(error_map.steps) == 2 else (1, *error_map.steps)
    highest = error_map.most or 1.0
    high, wide = _MAP / means.shape[0], _MAP / means.shape[1]
    cells = []
    for (row, column), mean in np.ndenumerate(means):
        shade = SHADES - 1 if not math.isfinite(mean) else round(mean / highest * (SHADES - 1))
        if shade:
            where = (
                f"{row * steps[0]}, {column * steps[1]}"
                if len(names) == 2
                else f"{column * steps[1]}"
            )
            text = f"at {where}: {short(float(mean))}"
            cells.append(_cell(column * wide, row * high, wide, high, shade, text))
    down = names[0] if len(names) == 2 else ""
    return CellPicture(
        "mean |device - golden| by place", names[-1], down, "0", short(highest), cells
    )


def _axis(axis: int, values: TensorValues) -> str:
    letters = values.layout or ""
    letter = f" ({letters[axis]})" if axis < len(letters) else ""
    return f"axis {axis}{letter}, 0 to {values.golden.shape[axis] - 1}"


def _value_cells(scatter: ValueScatter) -> CellPicture:
    """Cells of the plot, several of its counts in one; empty ones are left out."""
    side = scatter.counts.shape[0]
    step = -(-side // (_CELLS + 8))
    padded = -(-side // step) * step
    counts = np.zeros((padded, padded), dtype=np.int64)
    counts[:side, :side] = scatter.counts
    summed = counts.reshape(padded // step, step, padded // step, step).sum(axis=(1, 3))
    highest, size = math.log1p(int(summed.max())), _MAP / summed.shape[0]
    cells = []
    for row, column in np.argwhere(summed).tolist():
        count = int(summed[row, column])
        shade = max(1, round(math.log1p(count) / highest * (SHADES - 1)))
        y = _MAP - (row + 1) * size
        cells.append(_cell(column * size, y, size, size, shade, f"{count:,} elements"))
    ends = (short(scatter.low), short(scatter.high))
    return CellPicture("values: device over golden", "golden", "device", *ends, cells)


def _cell(x: float, y: float, width: float, height: float, shade: int, text: str) -> ShadedCell:
    return ShadedCell(round(x, 2), round(y, 2), round(width, 2), round(height, 2), shade, text)
