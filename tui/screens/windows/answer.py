"""The answer to a declared question: its map if it has one, its facts, a table to go on from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content

from divergraph.present.declared_answer import AnswerFact, AnswerTable, part_lines
from divergraph.present.pictures.state_map import StateMap
from divergraph.text.printable import printable
from graphstore.model import OpState
from tui.render.op_table import state_style
from tui.render.state_map_text import state_map_text
from tui.screens.windows.overlays import Overlay, Window
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows
from tui.widgets.text_pane import TextPane

_NAMES = {"op", "original", "old_op", "golden"}
"""Columns that hold names of ops."""
_STATES = {state.value: state_style(state) for state in OpState}


class NamedOp(NamedTuple):
    """An op that a part of an answer names, or none of a run that it names; ``run`` is empty where
    it is the question's own."""

    op: str
    run: str


class AnswerOverlay(Overlay):
    """Shows the parts of an answer; enter on a row of the *table* goes to the op it names."""

    def __init__(
        self,
        glyphs: Glyphs,
        title: str,
        parts: Sequence[AnswerFact | AnswerTable],
        picture: StateMap | None = None,
    ) -> None:
        super().__init__(glyphs, title)
        tables = [part for part in parts if isinstance(part, AnswerTable)]
        self.table = next((part for part in reversed(tables) if "op" in part.names), None)
        self.chosen: NamedOp | None = None
        self._rest = [part for part in parts if part is not self.table]
        self._picture = picture
        if self.table is not None:
            self.foot = "enter opens the op, esc closes"

    def compose(self) -> ComposeResult:
        """What is not the table, and the table below it."""
        with Window(classes="window"):
            yield TextPane()
            if self.table is not None:
                rows = [_cells(self.table.names, row) for row in self.table.rows]
                yield RowList(FixedRows(_columns(self.table), rows), self.glyphs, empty="no row")

    def on_mount(self) -> None:
        """Fill in the text."""
        pane = self.query_one(TextPane)
        pane.show(self._text)
        if self.table is None:
            pane.focus()
            return
        lines = len(self._text(80).plain.splitlines())
        pane.styles.height = min(max(1, lines), max(3, self.app.size.height // 2))
        self.query_one(RowList).focus()

    def _text(self, width: int) -> Content:
        lines = [Content(printable(line)) for part in self._rest for line in part_lines(part)]
        if self._picture is not None:
            lines = [state_map_text(self._picture, self.glyphs, width), Content(""), *lines]
        return Content("\n").join(lines)

    def action_open_cell(self, number: int) -> None:
        """Choose the op, or else the run, of a field of the map."""
        assert self._picture is not None
        cell = self._picture.cells[number]
        self.chosen = NamedOp(cell.op, cell.run)
        self.dismiss(None)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Choose the op of the row."""
        assert self.table is not None
        row = dict(zip(self.table.names, self.table.rows[event.index], strict=True))
        self.chosen = NamedOp(row["op"], row.get("run", ""))
        self.dismiss(None)


def _columns(table: AnswerTable) -> tuple[ListColumn, ...]:
    columns = []
    for place, name in enumerate(table.names):
        longest = max((width_of(row[place]) for row in table.rows), default=0)
        is_name = name in _NAMES
        least = min(longest, 24 if is_name else 10)
        columns.append(
            ListColumn(
                *(name, name.replace("_", " "), max(least, 4), longest),
                cut="name" if is_name else "right",
                priority=0 if is_name else 1,
                sortable=False,
            )
        )
    return tuple(columns)


def _cells(names: Sequence[str], row: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(
        Cell(text, _STATES.get(text, "") if name == "state" else "")
        for name, text in zip(names, row, strict=True)
    )
