"""A column chart of the cosine along execution order, with a marker to walk it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from divergraph.text.printable import printable
from divergraph.text.words import UNDEFINED
from graphstore.columns.coded import Coded, Float
from graphstore.model import OpState
from tui.keys import KeyScope, bindings
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import UNICODE, Glyphs
from tui.widgets.cells import cut_to, fit, joined, width_of
from tui.widgets.titled import Titled

FOOT_LINES = 3
"""Axis, names of the parts, what is under the marker."""
FAR_BELOW = 0.9
"""With a cosine below this a straight scale would hide the small drops before it."""
DECADES = 6


@dataclass(frozen=True, slots=True)
class CurveOp:
    """One measured op; ``part`` is the name written under the axis where it starts."""

    op: str
    topo: int
    cosine: float | None
    state: OpState
    part: str

    @property
    def no_cosine(self) -> str:
        """What is said in place of a cosine."""
        return "NaN" if self.state is OpState.BROKEN else UNDEFINED


@dataclass(frozen=True, slots=True)
class CurveScale:
    """Cosine to height in 0..1: straight from ``floor`` to 1, or by nines if it is None."""

    floor: float | None

    def height(self, cosine: float) -> float:
        """How high the bar of *cosine* is."""
        if self.floor is not None:
            return float((cosine - self.floor) / (1.0 - self.floor))
        return min(1.0, -math.log10(max(1.0 - cosine, 10.0**-DECADES)) / DECADES)

    def cosine(self, height: float) -> float:
        """The cosine whose bar is so high."""
        if self.floor is not None:
            return float(self.floor + height * (1.0 - self.floor))
        return float(1.0 - 10.0 ** (-DECADES * height))

    def label(self, height: float) -> str:
        """The number to write at the axis, seven cells at most."""
        cosine = self.cosine(height)
        if self.floor is None:
            if height >= 1:
                return "1"
            return f"{cosine:.{min(6, max(1, math.ceil(DECADES * height)))}f}"
        digits = max(2, math.ceil(1 - math.log10(max((1.0 - self.floor) / 4, 1e-5))))
        return f"{cosine:.{min(digits, 5)}f}"


@dataclass(frozen=True, slots=True, eq=False)
class CurveOps:
    """The measured ops along execution order: their numbers in *ids*, cosines (NaN where there is
    none), states and parts."""

    ids: Sequence[str]
    topo: NDArray[Any]
    cosine: Float
    states: Coded[OpState | None]
    parts: Coded[str]

    def __len__(self) -> int:
        return len(self.topo)

    def __getitem__(self, index: int) -> CurveOp:
        topo, cosine = int(self.topo[index]), float(self.cosine[index])
        state = self.states[index] or OpState.NOT_COMPARED
        cosine_or_none = None if math.isnan(cosine) else cosine
        return CurveOp(self.ids[topo], topo, cosine_or_none, state, self.parts[index])


NO_OPS = CurveOps((), np.zeros(0, dtype=np.int32), np.zeros(0), Coded.of(()), Coded.of(()))


def scale_of(ops: CurveOps) -> CurveScale:
    """The scale that shows the drops of *ops*."""
    cosines = ops.cosine[~np.isnan(ops.cosine)]
    low = float(cosines.min()) if len(cosines) else 1.0
    if low < FAR_BELOW:
        return CurveScale(None)
    return CurveScale(min(0.999, low - 0.1 * (1.0 - low)))


def blocks_of(ops: int, width: int) -> tuple[list[range], int]:
    """So many *ops* in at most *width* blocks of equal size but for one op, and the cells of
    each."""
    if not ops or width < 1:
        return [], 1
    count = min(ops, width)
    edges = [number * ops // count for number in range(count + 1)]
    return [range(start, end) for start, end in pairwise(edges)], width // count


def worst_of(ops: CurveOps, block: range) -> int:
    """The place of the op a block stands for: an origin before all, then a broken one, then the
    lowest cosine; ops without a cosine come last."""
    inside = slice(block.start, block.stop)
    first = ops.states.take(np.arange(block.start, block.stop)).keyed(_rank)
    cosine = np.where(np.isnan(ops.cosine[inside]), np.inf, ops.cosine[inside])
    return block.start + int(np.lexsort((cosine, first))[0])


_WORST: tuple[OpState | None, ...] = (OpState.ORIGIN, OpState.BROKEN)


def _rank(state: OpState | None) -> int:
    return _WORST.index(state) if state in _WORST else len(_WORST)


def _badness(op: CurveOp) -> tuple[int, float]:
    return _rank(op.state), math.inf if op.cosine is None else op.cosine


@dataclass(frozen=True)
class CurveColumns:
    """The ops as they share a width: blocks, the op each stands for, the part its first op is in,
    cells of each, scale."""

    width: int
    blocks: Sequence[range]
    worst: Sequence[CurveOp]
    parts: Sequence[str]
    cells: int
    scale: CurveScale


def columns_of(ops: CurveOps, width: int) -> CurveColumns:
    """The columns of *ops* in *width* cells."""
    blocks, cells = blocks_of(len(ops), width)
    worst = [ops[worst_of(ops, block)] for block in blocks]
    parts = [ops.parts[block.start] for block in blocks]
    return CurveColumns(width, blocks, worst, parts, cells, scale_of(ops))


class Curve(Titled, can_focus=True):
    """The chart; ``marker`` is the number of the block under the marker."""

    BINDINGS = bindings(KeyScope.CURVE)
    marker: reactive[int] = reactive(0)

    class Opened(Message):
        """The op under the marker was opened."""

        def __init__(self, op: str) -> None:
            super().__init__()
            self.op = op

    def __init__(self, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.ops = NO_OPS
        self._empty = "loading"
        self._columns: CurveColumns | None = None

    def show(self, ops: CurveOps) -> None:
        """Draw *ops*, the marker on the first origin or else on the worst."""
        self.ops = ops
        self._empty = "no op has a cosine"
        self._columns = None
        self._place()
        self.refresh()

    def on_resize(self) -> None:
        """Put the marker back on what matters most in the new blocks."""
        self.fit_title()
        self._place()

    def _place(self) -> None:
        self.marker = self._start()
        size = max(map(len, self._shown().blocks), default=0)
        words = f"{size} ops a column at most, worst of each" if size > 1 else ""
        self.border_subtitle = Content(words)

    def _start(self) -> int:
        worst = self._shown().worst
        first = next((n for n, op in enumerate(worst) if op.state is OpState.ORIGIN), None)
        if first is not None or not worst:
            return first or 0
        return min(range(len(worst)), key=lambda number: _badness(worst[number]))

    def validate_marker(self, marker: int) -> int:
        """Keep the marker on a block."""
        return max(0, min(marker, len(self._shown().worst) - 1))

    def action_step(self, blocks: int) -> None:
        """Move the marker by *blocks*."""
        self.marker += blocks

    def action_open(self) -> None:
        """Open the worst op of the block under the marker."""
        worst = self._shown().worst
        if worst:
            self.post_message(self.Opened(worst[self.marker].op))

    def on_click(self, event: events.Click) -> None:
        """Put the marker there; open with a double click."""
        offset = event.get_content_offset(self)
        if offset is not None and len(self.ops) and offset.x >= self._left:
            self.marker = (offset.x - self._left) // self._shown().cells
            if event.chain == 2:
                self.action_open()

    _left = 9

    def _shown(self) -> CurveColumns:
        width = max(1, self.size.width - self._left)
        if self._columns is None or self._columns.width != width:
            self._columns = columns_of(self.ops, width)
        return self._columns

    def render(self) -> Content:
        """The chart for the present size."""
        rows = self.size.height - FOOT_LINES
        if not self.ops or rows < 1:
            return Content("" if self.ops else self._empty)
        columns = self._shown()
        blocks, cells = columns.blocks, columns.cells
        lines = [self._line(rows, row, columns) for row in range(rows)]
        lines += [self._axis(len(blocks), cells), self._parts(columns.parts, cells)]
        lines.append(self._under_marker(columns))
        return Content("\n").join(lines)

    def _line(self, rows: int, row: int, columns: CurveColumns) -> Content:
        label = self._label(rows, row, columns.scale)
        if row and label == self._label(rows, row - 1, columns.scale):
            label = " " * len(label)  # few digits cannot tell the lines of a high chart apart
        parts: list[tuple[str, str]] = [(f"{label} {self.glyphs.axis}", theme.QUIET)]
        below = rows - 1 - row
        for op in columns.worst:
            bar = self._bar(op, columns.scale, rows, below)
            parts.append((bar * columns.cells, "" if bar == " " else theme.STATE_STYLES[op.state]))
        return Content.assemble(*joined(parts))

    def _label(self, rows: int, row: int, scale: CurveScale) -> str:
        return fit(scale.label((rows - row) / rows), self._left - 2, "", "right")

    def _bar(self, op: CurveOp, scale: CurveScale, rows: int, below: int) -> str:
        """The cell of one column with *below* cells under it."""
        if op.state is OpState.BROKEN:
            return self.glyphs.broken if below == 0 else " "
        if op.cosine is None:
            return self.glyphs.undefined if below == 0 else " "
        height = max(0.05, scale.height(op.cosine)) * rows
        top = max(0, math.ceil(height) - 1)
        if below == top and op.state is OpState.ORIGIN:
            return self.glyphs.origin
        return self.glyphs.bar(min(1.0, height - below))

    def _axis(self, blocks: int, cells: int) -> Content:
        g = self.glyphs
        at = self.marker * cells
        before, after = g.level * at, g.level * (blocks * cells - at - 1)
        head = " " * (self._left - 1) + g.corner
        return Content.assemble(
            (head + before, theme.QUIET), (g.marker, theme.LINKED), (after, theme.QUIET)
        )

    def _parts(self, parts: Sequence[str], cells: int) -> Content:
        starts = [0] + [n + 1 for n, (a, b) in enumerate(pairwise(parts)) if a != b]
        line, last = " " * self._left, ""
        for number, block in enumerate(starts):
            x = self._left + block * cells
            if x < width_of(line) or parts[block] == last:
                continue
            last = parts[block]
            end = starts[number + 1] if number + 1 < len(starts) else len(parts)
            name = printable(parts[block])
            name = cut_to(name, max(12, (end - block) * cells - 1), self.glyphs.ellipsis)
            if x + width_of(name) <= self.size.width:
                line += " " * (x - width_of(line)) + name + " "
        return Content.styled(line, theme.QUIET)

    def _under_marker(self, columns: CurveColumns) -> Content:
        at = min(self.marker, len(columns.blocks) - 1)
        block, op = columns.blocks[at], columns.worst[at]
        value = wording.cosine(op.cosine, self.glyphs) if op.cosine is not None else op.no_cosine
        more = f"  worst of {len(block)} ops" if len(block) > 1 else ""
        name = cut_to(printable(op.op), max(12, self.size.width - 48), self.glyphs.ellipsis, "left")
        return Content.assemble(
            (f"{self.glyphs.marker} ", theme.LINKED),
            f"topo {op.topo}  {name}  cos {value}  ",
            (f"{self.glyphs.state(op.state)} {op.state.value}", theme.STATE_STYLES[op.state]),
            (more, theme.QUIET),
        )


def parts_of(names: Sequence[str], depth_limit: int = 4) -> Coded[str]:
    """A short name of the part of the model each op belongs to, from its name spaces.

    The depth is the first that tells at least three parts apart, the common beginning is
    left out: ``net/conv1/Relu`` and ``net/fc/MatMul`` are in ``conv1`` and ``fc``.
    """
    scopes = Coded.of(name.rpartition("/")[0] for name in names)
    parts = scopes.values
    for depth in range(1, depth_limit + 1):
        parts = tuple("/".join(scope.split("/")[:depth]) for scope in scopes.values)
        if len(set(parts) - {""}) >= 3:
            break
    return Coded(scopes.codes, tuple(part.rpartition("/")[2] for part in parts))
