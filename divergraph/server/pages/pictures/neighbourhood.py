"""The neighbourhood of an op as boxes and lines, coloured by what is known of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from divergraph.server.pages.pictures.layered_layout import layered
from divergraph.server.pages.pictures.near_ops import NearEdge, NearOps
from divergraph.text.numbers import short, small_number
from divergraph.text.words import known, shape_text
from graphstore.model import Metric, Side
from graphstore.op_row import OpRow

COLOURS = {
    "state": "state",
    Metric.RELATIVE_EUCLIDEAN_DISTANCE.value: "relative error",
    Metric.COSINE_SIMILARITY.value: "cosine",
    Metric.MAX_ABSOLUTE_ERROR.value: "max |Δ|",
}
"""What boxes can be coloured by."""
STEPS = 6
"""Shades, from 0 (no error) on."""
_BOX, _LINE, _PAD = 196, 16, 8
_COLUMN, _GAP, _EDGE = 216, 46, 14
_ORIGINALS = 3
_NAME, _SMALL = 24, 28
"""Letters that fit into a line of a box, in its name and in small print."""


@dataclass(frozen=True, slots=True)
class OpBox:
    """A box: its upper left corner and size; ``lines`` of small print below the name, each with
    its baseline. ``shade`` is None where the number is not known."""

    row: OpRow
    x: float
    y: float
    width: int
    height: int
    name: str
    lines: Sequence[tuple[float, str]]
    shade: int | None
    is_focus: bool
    hidden: int


@dataclass(frozen=True, slots=True)
class TensorLine:
    """A line from box to box as the path of an SVG, and what stands at its middle."""

    path: str
    x: float
    y: float
    text: str
    is_against: bool
    """It goes upwards, against the order."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A picture of so many pixels. ``colour`` is what boxes are coloured by."""

    boxes: Sequence[OpBox]
    lines: Sequence[TensorLine]
    width: int
    height: int
    colour: str


def neighbourhood(ops: NearOps, colour: str) -> Neighbourhood:
    """The picture, coloured by *colour*, one of ``COLOURS``; by state in place of any other."""
    colour = colour if colour in COLOURS else "state"
    edges = [(edge.source, edge.target) for edge in ops.edges]
    drawing = layered(len(ops.rows), edges)
    texts = [_lines(row, colour) for row in ops.rows]
    heights = [_PAD * 2 + _LINE * (1 + len(lines)) for lines in texts]
    tops = _tops(drawing.places, heights, drawing.layers)
    shades = _shades(ops.rows, colour)

    def middle(column: float) -> float:
        return round(_EDGE + _BOX / 2 + column * _COLUMN, 1)

    boxes = [
        OpBox(
            row,
            middle(drawing.places[at][0]) - _BOX / 2,
            tops[drawing.places[at][1]],
            _BOX,
            heights[at],
            _cut(row.id, _NAME),
            [(_PAD + _LINE * (2 + n) - 4, line) for n, line in enumerate(texts[at])],
            shades[at],
            at == ops.focus,
            ops.hidden.get(at, 0),
        )
        for at, row in enumerate(ops.rows)
    ]
    bottoms = [top - _GAP for top in tops[1:]]
    lines = [
        _line(
            [(middle(column), layer) for column, layer in drawing.routes[edge.source, edge.target]],
            boxes,
            edge,
            (tops, [*bottoms, tops[-1]]),
        )
        for edge in ops.edges
    ]
    width = 2 * _EDGE + _BOX + (drawing.columns - 1) * _COLUMN
    height = tops[-1] + max(heights) + _EDGE + _LINE
    return Neighbourhood(boxes, lines, math.ceil(width), math.ceil(height), colour)


def _tops(places: Sequence[tuple[float, int]], heights: Sequence[int], layers: int) -> list[float]:
    """Where each layer begins."""
    tallest = [0] * layers
    for (_, layer), height in zip(places, heights, strict=True):
        tallest[layer] = max(tallest[layer], height)
    tops = [float(_EDGE)]
    for height in tallest[:-1]:
        tops.append(tops[-1] + height + _GAP)
    return tops


def _lines(row: OpRow, colour: str) -> list[str]:
    state = "" if row.state is None else f" · {row.state.value}"
    lines = [_cut(row.type, _SMALL - len(state)) + state]
    if row.metrics is not None:
        metric = Metric.RELATIVE_EUCLIDEAN_DISTANCE if colour == "state" else Metric(colour)
        value = known(row.metrics, metric)
        label = COLOURS[metric.value]
        if value is not None:
            form = (
                short(value, ".6f") if metric is Metric.COSINE_SIMILARITY else small_number(value)
            )
            lines.append(f"{label} {form}")
    if row.side is Side.DEVICE and row.fused > 1:
        lines.append(f"fused of {row.fused}:")
        lines += [f"  {name}" for name in row.originals[:_ORIGINALS]]
        if more := len(row.originals) - _ORIGINALS:
            lines += [f"  and {more} more"] if more > 0 else []
    return [_cut(line, _SMALL) for line in lines]


def _cut(text: str, letters: int) -> str:
    """*text*, or its end, which tells more than its beginning."""
    return text if len(text) <= letters else f"…{text[1 - letters :]}"


def _shades(rows: Sequence[OpRow], colour: str) -> list[int | None]:
    """How bad the number of each op is among those shown, on a scale of logarithms."""
    if colour == "state":
        return [None] * len(rows)
    metric = Metric(colour)
    values = [known(row.metrics, metric) for row in rows]
    if metric is Metric.COSINE_SIMILARITY:
        values = [None if value is None else 1.0 - value for value in values]
    finite = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    high = math.log10(max(finite, default=1.0))
    low = min(math.log10(min(finite, default=1.0)), high - 1)
    return [None if value is None else _shade(value, low, high) for value in values]


def _shade(value: float, low: float, high: float) -> int:
    if not math.isfinite(value):
        return STEPS - 1
    if value <= 0:
        return 0
    return min(STEPS - 1, 1 + int((math.log10(value) - low) / (high - low) * (STEPS - 1)))


def _line(
    route: Sequence[tuple[float, int]],
    boxes: Sequence[OpBox],
    edge: NearEdge,
    layers: tuple[Sequence[float], Sequence[float]],
) -> TensorLine:
    """From box to box: straight through each layer, curved between two, *layers* being where each
    begins and ends. What it carries stands between the first two."""
    tops, bottoms = layers
    is_against = route[0][1] > route[-1][1]
    ends = (edge.target, edge.source) if is_against else (edge.source, edge.target)
    points = list(reversed(route)) if is_against else list(route)
    upper = boxes[ends[0]]
    x = points[0][0]
    path = f"M{x:g} {upper.y + upper.height:g}"
    for (x, layer), (next_x, _) in pairwise(points):
        y, next_y = bottoms[layer], tops[layer + 1]
        half = (y + next_y) / 2
        path += f"V{y:g}C{x:g} {half:g} {next_x:g} {half:g} {next_x:g} {next_y:g}"
    first, following = points[0], points[min(1, len(points) - 1)]
    text = ", ".join(shape_text(shape) for shape in edge.shapes[:2])
    middle = (first[0] + following[0]) / 2
    return TensorLine(path, round(middle, 1), bottoms[first[1]] + _GAP / 2 + 4, text, is_against)
