"""The lines of a list: its heading and its rows, drawn in columns at their places."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from divergraph.text.printable import printable
from divergraph.text.short_names import ShortNames
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit, width_of
from tui.widgets.columns import Placed
from tui.widgets.rows import Cell, RowSource

NAMES_READ = 128
"""Rows that say what the names of a list have in common."""


@dataclass(frozen=True, eq=False)
class RowLines:
    """Draws the rows of ``source`` in the ``placed`` columns; ``style_of`` gives what is added to
    a line's style for a named one of :data:`tui.widgets.rows.STYLES`."""

    source: RowSource
    placed: tuple[Placed, ...]
    glyphs: Glyphs
    style_of: Callable[[str], Style]
    _short_names: dict[int, ShortNames] = field(default_factory=dict)

    def heading(self, base: Style, chosen: int, sorted_by: str, *, descending: bool) -> Strip:
        """The titles; that of the column number *chosen* stands out (-1: none)."""
        segments: list[Segment] = []
        x = 0
        for placed in self.placed:
            segments.append(Segment(" " * (placed.x - x), base))
            column = placed.column
            is_chosen = placed.index == chosen and column.sortable
            title = column.title
            if column.id == sorted_by and column.sortable:
                title += self.glyphs.descending if descending else self.glyphs.ascending
            text = fit(title, placed.width, self.glyphs.ellipsis, column.align)
            segments.append(Segment(text, base + Style(reverse=True) if is_chosen else base))
            x = placed.x + placed.width
        return Strip(segments)

    def row(self, index: int, base: Style) -> Strip:
        """The cells of a row."""
        cells = self.source.row(index)
        segments: list[Segment] = []
        x = 0
        for placed in self.placed:
            segments.append(Segment(" " * (placed.x - x), base))
            segments.extend(self._cell(cells[placed.index], placed, base))
            x = placed.x + placed.width
        return Strip(segments)

    def blank(self, line: int, empty: str, width: int, style: Style) -> Strip:
        """A line below the last row; in a list without rows they say why it is *empty*."""
        words = [] if len(self.source) else textwrap.wrap(empty, max(1, width))
        text = words[line] if 0 <= line < len(words) else ""
        return Strip([Segment(fit(text, width, self.glyphs.ellipsis), style)])

    def _cell(self, cell: Cell, placed: Placed, base: Style) -> list[Segment]:
        column, ellipsis = placed.column, self.glyphs.ellipsis
        style = self._styled(cell.style, base)
        room = placed.width - width_of(cell.tail)
        text = printable(cell.text)
        if column.cut == "name" and width_of(text) > room:
            text = self._names_in(placed.index).short(text, max(0, room), ellipsis)
        if not cell.tail:
            return [Segment(fit(text, room, ellipsis, column.align, column.cut), style)]
        cell_text = fit(text, min(width_of(text), max(0, room)), ellipsis, "left", column.cut)
        rest = placed.width - width_of(cell_text)
        return [
            Segment(cell_text, style),
            Segment(fit(cell.tail, rest, ellipsis), self._styled(cell.tail_style, base)),
        ]

    def _names_in(self, column: int) -> ShortNames:
        """The names in a column, from rows all over the list."""
        if column not in self._short_names:
            rows = range(0, len(self.source), -(-len(self.source) // NAMES_READ))
            names = (printable(self.source.row(row)[column].text) for row in rows)
            self._short_names[column] = ShortNames(names)
        return self._short_names[column]

    def _styled(self, name: str, base: Style) -> Style:
        return base + self.style_of(name) if name else base
