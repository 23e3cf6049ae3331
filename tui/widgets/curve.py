"""A column chart of a metric along execution order: a marker walks it, its limit can be moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from divergraph.text.numbers import small_number
from divergraph.text.printable import printable
from graphstore.model import Level, OpState
from tui.keys import KeyScope, bindings
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import UNICODE, Glyphs
from tui.widgets.cells import cut_to, fit, joined, width_of
from tui.widgets.curve_ops import (
    NO_OPS,
    ChartField,
    CurveColumns,
    CurveOp,
    CurveOps,
    CurveScale,
    columns_of,
)
from tui.widgets.titled import Titled

FOOT_LINES = 3
"""Axis, names of the parts, what is under the marker."""
_LIMIT_STYLE = theme.LEVEL_STYLES[Level.FAIL]
_LEAST = 0.05
"""Of the height of the chart: a bar of nothing is seen, too."""


class Curve(Titled, can_focus=True):
    """The chart; ``marker`` is the number of the block under the marker."""

    BINDINGS = bindings(KeyScope.CURVE)
    marker: reactive[int] = reactive(0)

    class OtherMetric(Message):
        """Another metric is wanted, so many places on in their list."""

        def __init__(self, shown: str, places: int) -> None:
            super().__init__()
            self.shown = shown
            self.places = places

    class Narrowed(Message):
        """The ops of the next type or state are wanted alone."""

        def __init__(self, metric: str, field: ChartField) -> None:
            super().__init__()
            self.metric = metric
            self.field = field

    class Beyond(Message):
        """The ops beyond the limit are wanted, which this filter lists."""

        def __init__(self, where: str) -> None:
            super().__init__()
            self.where = where

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
        self._empty = f"no op has a {ops.label}"
        self._columns = None
        title = f"{ops.label[:1].upper()}{ops.label[1:]} along execution order"
        self.name_pane(f"{title}, {ops.where}" if ops.where else title)
        self._place()
        self.refresh()

    def on_resize(self) -> None:
        """Put the marker back on what matters most in the new blocks."""
        self.fit_title()
        self._place()

    def _place(self) -> None:
        self.marker = self._start()
        self._count()

    def _count(self) -> None:
        """Say how many ops are beyond the limit, and what a column stands for."""
        size = max(map(len, self._shown().blocks), default=0)
        words = [f"{size} ops a column at most, worst of each"] if size > 1 else []
        if self.ops.limit is not None:
            beyond = f"{int(self.ops.beyond().sum()):,} of {len(self.ops):,} ops"
            words.insert(0, f"{beyond} beyond {self.ops.limit:.6g}")
        self.border_subtitle = Content("; ".join(words))

    def _start(self) -> int:
        columns = self._shown()
        is_origin = (n for n, op in enumerate(columns.worst) if op.state is OpState.ORIGIN)
        return next(is_origin, columns.worst_column)

    def validate_marker(self, marker: int) -> int:
        """Keep the marker on a block."""
        return max(0, min(marker, len(self._shown().worst) - 1))

    def action_step(self, blocks: int) -> None:
        """Move the marker by *blocks*."""
        self.marker += blocks

    def action_metric(self, places: int) -> None:
        """Ask for the metric so many places on."""
        self.post_message(self.OtherMetric(self.ops.metric, places))

    def action_narrow(self, field: ChartField) -> None:
        """Ask for the ops of the next type or state alone."""
        self.post_message(self.Narrowed(self.ops.metric, field))

    def action_limit(self, steps: int) -> None:
        """Move the limit up; count what is beyond it now."""
        if len(self.ops):
            self.ops = self.ops.with_limit_moved(steps)
            self._columns = None
            self._count()
            self.refresh()

    def action_beyond(self) -> None:
        """List the ops beyond the limit."""
        if where := self.ops.filter_beyond():
            self.post_message(self.Beyond(where))

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
        limit = self.ops.limit
        is_limit = limit is not None and below == _top(columns.scale.height(limit), rows)
        for op in columns.worst:
            bar = self._bar(op, columns.scale, rows, below)
            style = theme.STATE_STYLES[op.state]
            if bar == " ":
                bar, style = (
                    (self.glyphs.level, theme.LEVEL_STYLES[Level.FAIL]) if is_limit else (" ", "")
                )
            parts.append((bar * columns.cells, style))
        return Content.assemble(*joined(parts))

    def _label(self, rows: int, row: int, scale: CurveScale) -> str:
        return fit(scale.label((rows - row) / rows), self._left - 2, "", "right")

    def _bar(self, op: CurveOp, scale: CurveScale, rows: int, below: int) -> str:
        """The cell of one column with *below* cells under it."""
        if op.value is None:
            return self.glyphs.broken if below == 0 else " "
        height = max(_LEAST, scale.height(op.value))
        if below == _top(height, rows) and op.state is OpState.ORIGIN:
            return self.glyphs.origin
        return self.glyphs.bar(min(1.0, height * rows - below))

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
        value = self._value(op)
        more = f"  worst of {len(block)} ops" if len(block) > 1 else ""
        name = cut_to(printable(op.op), max(12, self.size.width - 48), self.glyphs.ellipsis, "left")
        return Content.assemble(
            (f"{self.glyphs.marker} ", theme.LINKED),
            f"topo {op.topo}  {name}  {value}  ",
            (f"{self.glyphs.state(op.state)} {op.state.value}", theme.STATE_STYLES[op.state]),
            (more, theme.QUIET),
        )

    def _value(self, op: CurveOp) -> str:
        if not self.ops.is_cosine:
            return "NaN" if op.value is None else small_number(op.value)
        text = "NaN" if op.value is None else wording.cosine(op.value, self.glyphs)
        return f"cos {text}"


def _top(height: float, rows: int) -> int:
    """The row of a bar's upper end, counted from below."""
    return max(0, math.ceil(height * rows) - 1)
