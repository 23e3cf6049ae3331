"""Shown rows as a file, written while the view goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tui.export import write_rows, write_table
from tui.messages import ask
from tui.screens.base import ViewScreen
from tui.style import words as wording

if TYPE_CHECKING:
    from pathlib import Path

    from graphstore.contract import QueryResult
    from graphstore.op_row import OpRow


class RowsToFile(ViewScreen):
    """A view whose rows the user can take along as CSV."""

    def write_rows(self, rows: Sequence[OpRow], name: str) -> None:
        """Write *rows* to a new file *name* and say where, or why not."""
        self._write(partial(write_rows, rows), name, len(rows))

    def write_answer(self, answer: QueryResult, name: str) -> None:
        """The same for the rows of an answer."""
        self._write(partial(write_table, answer.columns, answer.rows), name, len(answer.rows))

    def _write(self, write: Callable[[Path, str], Path], name: str, rows: int) -> None:
        def written(path: Path) -> None:
            self.notify(f"{wording.count(rows, 'row')} written to {path}")

        ask(self, "export", partial(write, self.owner.settings.export_dir, name), written)
