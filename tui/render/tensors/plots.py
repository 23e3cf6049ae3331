"""Drawings of a tensor pair: the device's values over golden's, and errors by place."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from textual.content import Content

from divergraph.text.numbers import small_number
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit, joined

if TYPE_CHECKING:
    import numpy.typing as npt

    from divergraph.api.answers import ErrorMap, ValueScatter

LABEL = 9
"""Cells at the left of a drawing, with the numbers of its scale."""
FEET = 2
"""Lines below: the axis, and what stands on it."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille sign by line and column of its dots."""
_BRAILLE = 0x2800
_Part = tuple[str, str]


def scatter(plot: ValueScatter, glyphs: Glyphs, width: int, height: int) -> Content:
    """Golden to the right, device upwards, in one scale: what is equal lies on the diagonal."""
    rows, columns = height - FEET, width - LABEL
    if rows < 2 or columns < 4:
        return Content("")
    per_row, per_column = (4, 2) if glyphs.dots else (1, 1)
    size = len(plot.counts)
    rows, columns = min(rows, size // per_row), min(columns, size // per_column)
    seen = _shrunk(plot.counts, rows * per_row, columns * per_column)
    lines = []
    for row in range(rows):
        below = rows - 1 - row
        label = plot.high if row == 0 else plot.low if below == 0 else None
        parts = [_label(label, glyphs)]
        for column in range(columns):
            cell = seen[
                below * per_row : (below + 1) * per_row,
                column * per_column : (column + 1) * per_column,
            ]
            parts.append(_point(cell, _on_diagonal(below, column, rows, columns), glyphs))
        lines.append(Content.assemble(*joined(parts)))
    ends = fit(small_number(plot.low), columns - LABEL, "") + fit(
        small_number(plot.high), LABEL, "", "right"
    )
    lines.append(_axis(columns, glyphs))
    lines.append(Content.styled(" " * LABEL + ends, theme.QUIET))
    return Content("\n").join(lines)


def _shrunk(counts: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    """The counts in fewer cells, that of each the sum of those it stands for."""
    down, across = (
        np.linspace(0, len(counts), n, endpoint=False).astype(int) for n in (rows, columns)
    )
    return np.add.reduceat(np.add.reduceat(counts, down, axis=0), across, axis=1)


def _on_diagonal(below: int, column: int, rows: int, columns: int) -> bool:
    """Whether equal values of both sides may fall into a cell."""
    return below * columns < (column + 1) * rows and column * rows < (below + 1) * columns


def _point(cell: npt.NDArray[Any], diagonal: bool, glyphs: Glyphs) -> _Part:
    count = int(cell.sum())
    if not count:
        return (glyphs.shades[0], theme.QUIET) if diagonal else (" ", "")
    style = "" if diagonal else theme.OFF
    if not glyphs.dots:
        return glyphs.shade(math.log10(count) / 4 + 0.2), style
    bits = 0
    for line, signs in enumerate(reversed(_DOTS)):  # the first line of counts is the lowest
        for place, bit in enumerate(signs):
            bits |= bit if cell[line, place] else 0
    return chr(_BRAILLE | bits), style


def profile(
    error_map: ErrorMap, marked: Collection[int], glyphs: Glyphs, width: int, height: int
) -> Content:
    """The mean error along one axis as columns; those of *marked* indices are what the cause
    names."""
    rows, room = height - FEET, width - LABEL
    if rows < 1 or room < 2:
        return Content("")
    step, means = _fewer(error_map, room)
    cells = max(1, room // len(means))
    named = {index // step for index in marked}
    highest = error_map.most
    lines = []
    for row in range(rows):
        below = rows - 1 - row
        label = highest if row == 0 else 0.0 if below == 0 else None
        parts = [_label(label, glyphs)]
        for number, mean in enumerate(means):
            sign = _bar(float(mean), highest, rows, below, glyphs)
            style = theme.OFF if number in named else ""
            if not np.isfinite(mean):
                style = theme.BROKEN
            parts.append((sign * cells, style if sign != " " else ""))
        lines.append(Content.assemble(*joined(parts)))
    lines.append(_axis(len(means) * cells, glyphs, [n * cells for n in sorted(named)], cells))
    lines.append(_indices(len(means), step, cells))
    return Content("\n").join(lines)


def _fewer(error_map: ErrorMap, room: int) -> tuple[int, npt.NDArray[np.float64]]:
    """How many indices a column stands for, and the largest mean of each column."""
    means = error_map.means
    merged = max(1, math.ceil(len(means) / room))
    starts = np.arange(0, len(means), merged)
    return error_map.steps[0] * merged, np.maximum.reduceat(means, starts)


def _bar(mean: float, highest: float, rows: int, below: int, glyphs: Glyphs) -> str:
    if not math.isfinite(mean):
        return glyphs.broken if below == 0 else " "
    return glyphs.bar(min(1.0, (mean / highest if highest else 0.0) * rows - below))


def heat(error_map: ErrorMap, glyphs: Glyphs, width: int, height: int) -> Content:
    """The mean error over two axes, the first one downwards, in shades."""
    rows, columns = error_map.means.shape
    highest = error_map.most
    lines = []
    cells = max(1, (width - LABEL) // columns)
    for row in range(min(rows, height - FEET)):
        parts = [_label(row * error_map.steps[0], glyphs, exact=True)]
        for mean in error_map.means[row].tolist():
            if math.isfinite(mean):
                parts.append((glyphs.shade(mean / highest if highest else 0.0) * cells, ""))
            else:
                parts.append((glyphs.broken * cells, theme.BROKEN))
        lines.append(Content.assemble(*joined(parts)))
    lines.append(_axis(columns * cells, glyphs))
    lines.append(_indices(columns, error_map.steps[1], cells))
    return Content("\n").join(lines)


def heat_cells(width: int, height: int) -> tuple[int, int]:
    """How many cells downwards and across a drawing of this size has for a map."""
    return max(1, height - FEET), max(1, width - LABEL)


def _label(value: float | None, glyphs: Glyphs, *, exact: bool = False) -> _Part:
    text = "" if value is None else str(value) if exact else small_number(value)
    return f"{fit(text, LABEL - 2, '', 'right')} {glyphs.axis}", theme.QUIET


def _axis(length: int, glyphs: Glyphs, marked: Collection[int] = (), cells: int = 1) -> Content:
    """The line below a drawing, with a mark below what the cause names."""
    signs = [glyphs.level] * length
    for start in marked:
        for place in range(start, min(length, start + cells)):
            signs[place] = glyphs.marker
    head = (" " * (LABEL - 1) + glyphs.corner, theme.QUIET)
    parts = [(sign, theme.OFF if sign == glyphs.marker else theme.QUIET) for sign in signs]
    return Content.assemble(*joined([head, *parts]))


def _indices(count: int, step: int, cells: int) -> Content:
    """The first index of some cells, below the axis."""
    line, room = "", len(str(count * step)) + 1
    every = max(1, math.ceil(room / cells))
    for cell in range(0, count, every):
        line = line.ljust(cell * cells) + str(cell * step)
    return Content.styled(" " * LABEL + line, theme.QUIET)
