"""Edges between the rows of a list, drawn as lanes beside them. Knows no widget state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np

from graphstore.columns.coded import Coded, Int, small, starts
from graphstore.traverse.arrays import Int32, distinct
from tui.style.glyphs import Glyphs

NEAR = 16
"""Rows an edge may span and still be drawn: more would cross than anybody can follow."""
_CHUNK = 8192
MOST = 4
"""Lanes side by side; edges beyond are not drawn."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """For each row what is drawn beside it, and beside what is shown below it before the next."""

    beside: Coded[str]
    below: Coded[str]

    @property
    def width(self) -> int:
        """Cells the widest needs."""
        return max(map(len, (*self.beside.values, *self.below.values)), default=1)


@dataclass(frozen=True, slots=True, eq=False)
class FeedingRows(Sequence[tuple[int, ...]]):
    """For row n the rows ``rows[start[n]:start[n + 1]]`` that feed it."""

    start: Int
    rows: Int

    @classmethod
    def of(cls, feeds: Sequence[Sequence[int]]) -> FeedingRows:
        """Those of these rows."""
        rows = [row for feed in feeds for row in feed]
        return cls(starts(list(map(len, feeds))), np.asarray(rows, dtype=np.int32))

    @property
    def last(self) -> list[int]:
        """For each row the last one it feeds, -1 if there is none."""
        last = np.full(len(self), -1, dtype=np.int32)
        fed = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.start))
        last[self.rows] = fed  # the last one written stays
        rows: list[int] = last.tolist()
        return rows

    def __len__(self) -> int:
        return len(self.start) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        return tuple(self.rows[self.start[at] : self.start[at + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for first in range(0, len(self), _CHUNK):  # or a million tuples would be there at once
            start = self.start[first : first + _CHUNK + 1]
            rows, places = self.rows[start[0] : start[-1]].tolist(), (start - start[0]).tolist()
            for low, high in pairwise(places):
                yield tuple(rows[low:high])


def near_edges(sources: Int32, targets: Int32, rows: int) -> FeedingRows:
    """For each of *rows* rows the rows at most ``NEAR`` above that feed it, ascending."""
    span = targets - sources
    is_near = (span > 0) & (span <= NEAR)
    edges = distinct(targets[is_near].astype(np.int64) * rows + sources[is_near])
    start = np.searchsorted(edges, np.arange(rows + 1, dtype=np.int64) * rows)
    return FeedingRows(start.astype(np.int32), (edges % max(rows, 1)).astype(np.int32))


def draw_lanes(feeds: Sequence[Sequence[int]], glyphs: Glyphs) -> Lanes:
    """The lanes of rows of which row n is fed by the rows ``feeds[n]``, all of them above.

    An op goes on in the leftmost lane that ends at it, so that a chain is one straight line.
    Models repeat themselves, so what is drawn for the lanes there are, and the rows that feed one,
    is worked out once.
    """
    rows = feeds if isinstance(feeds, FeedingRows) else FeedingRows.of(feeds)
    last = rows.last
    open_lanes: tuple[int, ...] = (0,) * MOST
    drawings_by_place: dict[_Place, tuple[int, tuple[int, ...]]] = {}
    drawings: list[tuple[str, str]] = []
    codes: list[int] = []
    for row, sources in enumerate(rows):
        back = tuple([row - source for source in sources])
        ending = tuple([back for back in open_lanes if back and last[row - back] == row])
        place = (open_lanes, back, ending, last[row] > row)
        drawn = drawings_by_place.get(place)
        if drawn is None:
            own, under, after = _drawn(*place, glyphs)
            drawn = drawings_by_place[place] = len(drawings), after
            drawings.append((own, under))
        codes.append(drawn[0])
        open_lanes = drawn[1]
    columns = zip(*drawings, strict=True) if drawings else ((), ())
    places = small(np.asarray(codes, dtype=np.int32), len(drawings))
    sides, below = (Coded(places, tuple(column)) for column in columns)
    return Lanes(sides, below)


_Place: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool]
"""How many rows above the op held by each lane is (0: the lane is free), those that feed the row
are, and those are whose lanes end here; whether the row feeds others."""


def _drawn(
    lanes: tuple[int, ...],
    back: tuple[int, ...],
    ending_rows: tuple[int, ...],
    feeds_on: bool,
    glyphs: Glyphs,
) -> tuple[str, str, tuple[int, ...]]:
    """What is drawn beside a row and below it, and what the lanes hold for the next one."""
    open_lanes = [lane_end or None for lane_end in lanes]
    joined = [lane for lane, lane_end in enumerate(lanes) if lane_end and lane_end in back]
    ending = {lane for lane in joined if lanes[lane] in ending_rows}
    free = (lane for lane, lane_end in enumerate(lanes) if not lane_end)
    own = min(ending) if ending else next(free, MOST)
    cells = _cells(open_lanes, own, joined, ending, glyphs)
    for lane in ending:
        open_lanes[lane] = None
    if own < MOST:
        open_lanes[own] = 0 if feeds_on else None
    rest = tuple(" " if lane is None else glyphs.lane for lane in open_lanes)
    after = tuple(0 if lane is None else lane + 1 for lane in open_lanes)
    return "".join(cells).rstrip(), " ".join(rest).rstrip(), after


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
    for lane, lane_op in enumerate([*open_lanes, None]):
        if lane == own:
            mark = glyphs.dot
        elif lane in joined:
            turn = glyphs.lane_to_right if lane < own else glyphs.lane_to_left
            mark = glyphs.lane_ends if lane in ending else turn
        elif first < lane < final:
            mark = glyphs.level if lane_op is None else glyphs.lane_crossed
        else:
            mark = " " if lane_op is None else glyphs.lane
        cells += [mark, glyphs.level if first <= lane < final else " "]
    return tuple(cells)
