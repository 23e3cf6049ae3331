"""Shown rows as a file, written while the view goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message

from graphstore.errors import InputError
from tui.export import write_rows, write_table
from tui.screens.base import ViewScreen
from tui.style import words as wording

if TYPE_CHECKING:
    from pathlib import Path

    from graphstore.contract import QueryResult
    from graphstore.op_row import OpRow


class RowsToFile(ViewScreen):
    """A view whose rows the user can take along as CSV."""

    class Written(Message):
        """The rows are in a file."""

        def __init__(self, path: Path, rows: int) -> None:
            super().__init__()
            self.path = path
            self.rows = rows

    def write_rows(self, rows: Sequence[OpRow], name: str) -> None:
        """Write *rows* to a new file *name* and say where, or why not."""
        self._write(partial(write_rows, rows), name, len(rows))

    def write_answer(self, answer: QueryResult, name: str) -> None:
        """The same for the rows of an answer."""
        self._write(partial(write_table, answer.columns, answer.rows), name, len(answer.rows))

    @work(thread=True, exclusive=True, group="export", exit_on_error=False, description="export")
    def _write(self, write: Callable[[Path, str], Path], name: str, rows: int) -> None:
        try:
            path = write(self.owner.settings.export_dir, name)
        except InputError as error:
            self.notify(str(error), severity="error")
        else:
            self.post_message(self.Written(path, rows))

    @on(Written)
    def _written(self, event: Written) -> None:
        self.notify(f"{wording.count(event.rows, 'row')} written to {event.path}")
