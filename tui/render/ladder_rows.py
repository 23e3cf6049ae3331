"""One graph as a ladder: lanes of edges, folded name spaces, fused ops unfolded into their
originals. Knows no widget state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from divergraph.ask.op_order import STATE_ORDER
from graphstore.columns.coded import Coded, Int
from graphstore.model import OpState, Side
from tui.ladder import Ladder, Ladders
from tui.render.lanes import Lanes, draw_lanes, near_edges
from tui.render.op_table import state_style, value_style, widest_name
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell


@dataclass(frozen=True, slots=True)
class Folding:
    """What of a ladder is folded: name spaces of ``depth`` (None: none is) but those *opened*,
    named by the number of their first op; ops without a counterpart where ``linked_only``."""

    depth: int | None = None
    opened: frozenset[int] = frozenset()
    linked_only: bool = False


class LadderSteps:
    """The rows of a ladder as it is folded: each the ops ``first[n]`` to ``last[n]``."""

    def __init__(self, ladders: Ladders, side: Side, folding: Folding, glyphs: Glyphs) -> None:
        self.ladder = ladders.of(side)
        self.side, self.folding = side, folding
        linked = np.flatnonzero(ladders.links.linked(side)).astype(np.int32)
        ops = linked if folding.linked_only else np.arange(len(self.ladder), dtype=np.int32)
        self.first, self.last = _folded(self.ladder, ops, folding)
        self.lanes = self._lanes(glyphs)
        self.longest = widest_name(map(self.ladder.ids.__getitem__, self.first.tolist()))

    def __len__(self) -> int:
        return len(self.first)

    def row_of(self, number: int) -> int:
        """The row an op is in, or the one before where it is not shown; -1 if there is none."""
        return int(np.searchsorted(self.first, number, "right")) - 1

    def shows(self, number: int) -> bool:
        """True if an op is in some row."""
        row = self.row_of(number)
        return row >= 0 and number <= int(self.last[row])

    def _lanes(self, glyphs: Glyphs) -> Lanes:
        first, last = self.first, self.last
        sources, targets = self.ladder.edges()
        if not len(first) or not len(sources):
            nothing = Coded.same("", len(first))
            return Lanes(nothing, nothing)
        rows = []
        drawn = np.ones(len(sources), dtype=np.bool_)
        for ends in (sources, targets):
            at = np.searchsorted(first, ends, side="right") - 1
            drawn &= (at >= 0) & (ends <= last[at])
            rows.append(at.astype(np.int32))
        return draw_lanes(near_edges(rows[0][drawn], rows[1][drawn], len(first)), glyphs)


def _folded(ladder: Ladder, ops: Int, folding: Folding) -> tuple[Int, Int]:
    """First and last op of each row: neighbours of one name space are one row."""
    if folding.depth is None:
        return ops, ops
    scopes = ladder.scopes(folding.depth)
    first: list[int] = []
    last: list[int] = []
    start, before = -1, -2
    for number in ops.tolist():
        scope = scopes[number]
        if not scope or before != number - 1 or scopes[start] != scope:
            start = number
        if start == number or start in folding.opened:
            first.append(number)
            last.append(number)
        else:
            last[-1] = number
        before = number
    return np.asarray(first, dtype=np.int32), np.asarray(last, dtype=np.int32)


class LadderRows:
    """The rows of one side, with originals below the ops in *unfolded* (row numbers) and marks
    at the ops in *marked*."""

    def __init__(
        self,
        ladders: Ladders,
        steps: LadderSteps,
        glyphs: Glyphs,
        *,
        unfolded: Set[int] = frozenset(),
        marked: Sequence[str] = (),
    ) -> None:
        self.ladders, self.steps, self.glyphs = ladders, steps, glyphs
        self._marked = {op: place for place, op in enumerate(marked)}
        self._open = sorted(row for row in unfolded if row < len(steps))
        self._below = [ladders.linked(steps.side, self._id(row)) for row in self._open]
        self._before = list(accumulate(map(len, self._below), initial=0))
        self._starts = [row + 1 + self._before[at] for at, row in enumerate(self._open)]
        self.columns = self._columns()

    def _columns(self) -> Sequence[ListColumn]:
        device, lanes = self.steps.side is Side.DEVICE, self.steps.lanes.width
        last = ListColumn("cos", "cos", 8, align="right", priority=3, sortable=False)
        if device and not self.steps.ladder.has_results:
            last = ListColumn("layout", "layout", 8, 11, priority=3, sortable=False)
        elif not device:
            last = ListColumn("part", "part", 5, 9, priority=3, sortable=False)
        return (
            ListColumn("mark", "", 1, sortable=False),
            ListColumn("lanes", "", max(1, lanes), sortable=False),
            ListColumn("state", "", 1, sortable=False),
            ListColumn("op", "op", 14, self.steps.longest + 4, cut="name", sortable=False),
            ListColumn("type", "type", 6, 12, priority=7, sortable=False),
            last,
        )

    def __len__(self) -> int:
        return len(self.steps) + self._before[-1]

    def place(self, index: int) -> tuple[int, str]:
        """The row of the ladder at *index*, and the linked op shown below it; else empty."""
        at = bisect_right(self._starts, index) - 1
        if at < 0:
            return index, ""
        inside = index - self._starts[at]
        if inside < len(self._below[at]):
            return self._open[at], self._below[at][inside]
        return index - self._before[at + 1], ""

    def index_of(self, row: int) -> int:
        """Where a row of the ladder is drawn."""
        at = bisect_right(self._open, row - 1)
        return row + self._before[at]

    def op(self, index: int) -> str:
        """The op of a row; the first of a folded name space, of an original shown below an op
        that op."""
        return self._id(self.place(index)[0])

    def is_group(self, index: int) -> bool:
        """True for a folded name space."""
        row, below = self.place(index)
        return not below and bool(self.steps.first[row] < self.steps.last[row])

    def _id(self, row: int) -> str:
        return self.steps.ladder.ids[int(self.steps.first[row])]

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        row, below = self.place(index)
        if below:
            return self._linked_row(index, row, below)
        return self._group_row(row) if self.is_group(index) else self._op_row(row)

    def _op_row(self, row: int) -> tuple[Cell, ...]:
        side, glyphs = self.steps.side, self.glyphs
        op = self.steps.ladder.op(int(self.steps.first[row]))
        linked = self.ladders.linked(side, op.id)
        tail = f" {glyphs.fused}{len(linked)}" if len(linked) > 1 else ""
        strong = value_style(op.state) if op.state in (OpState.ORIGIN, OpState.BROKEN) else ""
        name = strong or ("" if linked else "quiet")
        if side is Side.DEVICE:
            figure = Cell(wording.cosine(op.cosine, glyphs), "" if linked else "quiet")
            last = figure if self.steps.ladder.has_results else Cell(op.layout, "quiet")
            state = Cell(glyphs.state(op.state), state_style(op.state) if op.state else "")
        else:
            last, state = self._part(op.id), Cell("")
        return (
            self._mark(op.id),
            Cell(self.steps.lanes.beside[row], "quiet"),
            state,
            Cell(op.id, name, tail, "fused"),
            Cell(op.type),
            last,
        )

    def _part(self, op: str) -> Cell:
        """Which of the originals of the op under the other cursor it is."""
        if op not in self._marked:
            return Cell("")
        return Cell(f"{self._marked[op] + 1}/{len(self._marked)}", "linked")

    def _mark(self, op: str) -> Cell:
        return Cell(self.glyphs.marked if op in self._marked else "", "linked")

    def _group_row(self, row: int) -> tuple[Cell, ...]:
        first, last = int(self.steps.first[row]), int(self.steps.last[row])
        ops = [self.steps.ladder.op(number) for number in range(first, last + 1)]
        marked = any(op.id in self._marked for op in ops)
        states = [op.state for op in ops if op.state is not None]
        worst = min(states, key=STATE_ORDER.index, default=None)
        scope = self.steps.ladder.scope(first, self.steps.folding.depth or 0)
        tail = f" {self.glyphs.crumb} {wording.count(len(ops), 'op')}"
        return (
            Cell(self.glyphs.marked if marked else "", "linked"),
            Cell(self.steps.lanes.beside[row], "quiet"),
            Cell(self.glyphs.state(worst), state_style(worst) if worst else ""),
            Cell(f"{scope}/", "linked", tail, "quiet"),
            Cell(""),
            Cell(""),
        )

    def _linked_row(self, index: int, row: int, below: str) -> tuple[Cell, ...]:
        other = self.ladders.original if self.steps.side is Side.DEVICE else self.ladders.device
        kind = other.op(other.number[below]).type
        final = self.place(index + 1)[1] == "" if index + 1 < len(self) else True
        turn = self.glyphs.corner if final else self.glyphs.lane_to_right
        return (
            self._mark(self._id(row)),
            Cell(self.steps.lanes.below[row], "quiet"),
            Cell(turn, "fused"),
            Cell(below, "fused"),
            Cell(kind),
            Cell(""),
        )
