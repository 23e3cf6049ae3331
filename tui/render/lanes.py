"""Edges between the rows of a list, drawn as lanes beside them. Knows no widget state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphstore.traverse.arrays import Int32
from tui.style.glyphs import Glyphs

NEAR = 16
"""Rows an edge may span and still be drawn: more would cross than anybody can follow."""
MOST = 4
"""Lanes side by side; edges beyond are not drawn."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """For each row what is drawn beside it, and beside what is shown below it before the next."""

    beside: Sequence[str]
    below: Sequence[str]

    @property
    def width(self) -> int:
        """Cells the widest needs."""
        return max(map(len, {*self.beside, *self.below}), default=1)


def near_edges(sources: Int32, targets: Int32, rows: int) -> list[tuple[int, ...]]:
    """For each of *rows* rows the rows at most ``NEAR`` above that feed it, ascending."""
    span = targets - sources
    kept = (span > 0) & (span <= NEAR)
    edges = np.unique(targets[kept].astype(np.int64) * rows + sources[kept])
    starts = np.searchsorted(edges, np.arange(rows + 1, dtype=np.int64) * rows).tolist()
    feeding = (edges % max(rows, 1)).tolist()
    return [tuple(feeding[starts[at] : starts[at + 1]]) for at in range(rows)]


def draw_lanes(feeds: Sequence[Sequence[int]], glyphs: Glyphs) -> Lanes:
    """The lanes of rows of which row n is fed by the rows ``feeds[n]``, all of them above.

    An op goes on in the leftmost lane that ends at it, so that a chain is one straight line.
    """
    last = [-1] * len(feeds)
    for row, sources in enumerate(feeds):
        for source in sources:
            last[source] = row
    open_lanes: list[int | None] = [None] * MOST
    known: dict[tuple[str, ...], str] = {}
    beside, below = [], []
    for row, sources in enumerate(feeds):
        joined = [lane for lane, held in enumerate(open_lanes) if held in sources]
        ending = {lane for lane in joined if last[open_lanes[lane] or 0] == row}
        free = (lane for lane, held in enumerate(open_lanes) if held is None)
        own = min(ending) if ending else next(free, MOST)
        cells = _cells(open_lanes, own, joined, ending, glyphs)
        beside.append(known.setdefault(cells, "".join(cells).rstrip()))
        for lane in ending:
            open_lanes[lane] = None
        if own < MOST:
            open_lanes[own] = row if last[row] > row else None
        rest = tuple(" " if held is None else glyphs.lane for held in open_lanes)
        below.append(known.setdefault(rest, " ".join(rest).rstrip()))
    return Lanes(beside, below)


def _cells(
    open_lanes: Sequence[int | None],
    own: int,
    joined: Sequence[int],
    ending: set[int],
    glyphs: Glyphs,
) -> tuple[str, ...]:
    """Two cells a lane: what stands in it, and what leads on to the next."""
    first, final = min([own, *joined]), max([own, *joined])
    cells = []
    for lane, held in enumerate([*open_lanes, None]):
        if lane == own:
            mark = glyphs.dot
        elif lane in joined:
            turn = glyphs.lane_to_right if lane < own else glyphs.lane_to_left
            mark = glyphs.lane_ends if lane in ending else turn
        elif first < lane < final:
            mark = glyphs.level if held is None else glyphs.lane_crossed
        else:
            mark = " " if held is None else glyphs.lane
        cells += [mark, glyphs.level if first <= lane < final else " "]
    return tuple(cells)
