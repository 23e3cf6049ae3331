"""A tensor pair in pixels: the same drawings as in cells, over the same places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from textual.color import Color
from textual.geometry import Region

from tui.render.tensors.plots import FEET, LABEL
from tui.terminal.pixels import Picture, Rgb

if TYPE_CHECKING:
    from divergraph.api.answers import ErrorMap, ValueScatter

_LEVELS = 32
_FINER = 8
"""Elements of a map in a cell's height and width, at most."""


def fine_cells(width: int, height: int) -> tuple[int, int]:
    """How many elements downwards and across a map in pixels has at most."""
    return max(1, height - FEET) * _FINER, max(1, width - LABEL) * _FINER


def heat_picture(
    fine: ErrorMap, coarse: tuple[int, int], colors: Mapping[str, str], width: int, height: int
) -> Picture | None:
    """The mean error over two axes, from the background's colour to that of errors.

    *coarse* is the shape of the map in cells whose drawing this one covers.
    """
    rows, columns = min(coarse[0], height - FEET), coarse[1]
    cells = max(1, (width - LABEL) // columns)
    place = Region(LABEL, 0, columns * cells, rows)
    if rows < 1 or place.right > width:
        return None
    finite = np.isfinite(fine.means)
    share = np.where(finite, fine.means, 0) / (fine.most or 1.0)
    numbers = np.minimum(np.ceil(share * (_LEVELS - 1)), _LEVELS - 1).astype(np.uint8)
    numbers[~finite] = _LEVELS
    ramp = _ramp(colors["background"], colors["state-inherited"])
    return Picture(numbers, (*ramp, _rgb(colors["state-broken-background"])), place)


def scatter_picture(
    plot: ValueScatter, colors: Mapping[str, str], width: int, height: int
) -> Picture | None:
    """Golden to the right, device upwards, in one scale; pairs off the diagonal stand out."""
    rows, columns = height - FEET, width - LABEL
    if rows < 2 or columns < 4:
        return None
    counts = plot.counts[::-1]
    size = len(counts)
    off = np.abs(np.add.outer(np.arange(size), np.arange(size)) - (size - 1)) > 1
    numbers = np.where(counts == 0, np.where(off, 0, 1), np.where(off, 3, 2)).astype(np.uint8)
    names = ("background", "border-blurred", "foreground", "state-inherited")
    palette = tuple(_rgb(colors[name]) for name in names)
    return Picture(numbers, palette, Region(LABEL, 0, columns, rows))


def _ramp(low: str, high: str) -> list[Rgb]:
    """Equal steps; the first error is told from none by its first step being a large one."""
    ends = Color.parse(low), Color.parse(high)
    steps = [0.0, *np.linspace(0.12, 1, _LEVELS - 1).tolist()]
    return [ends[0].blend(ends[1], step).rgb for step in steps]


def _rgb(color: str) -> Rgb:
    return Color.parse(color).rgb
