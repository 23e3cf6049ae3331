"""What can be done with the rows of an answer: open an op, list its ops, write them to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message

from graphstore.errors import DivergraphError
from graphstore.filter.fields import Operator
from graphstore.filter.terms import OpFilter, Pattern, Term
from tui.messages import OpenFilter, OpenOp
from tui.render.answer_rows import AnswerRows
from tui.screens.rows_to_file import RowsToFile
from tui.style import words as wording
from tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from graphstore.contract import QueryResult

_MOST = 200
"""Ops a filter names at most."""


class AnswerActions(RowsToFile):
    """A view with the list ``#answer``."""

    class Found(Message):
        """Which texts of the answer are device ops, or became some by their lineage."""

        def __init__(self, ops: tuple[str, ...], *, one: bool) -> None:
            super().__init__()
            self.ops, self.one = ops, one

    def __init__(self) -> None:
        super().__init__()
        self._answer: QueryResult | None = None

    def show_answer(self, answer: QueryResult | None) -> None:
        """Show these rows."""
        self._answer = answer
        listed = self.query_one("#answer", RowList)
        listed.show(
            AnswerRows(answer) if answer is not None else AnswerRows(),
            empty="f5 asks" if answer is None else "no row",
        )

    def why_not(self, key_id: str) -> str | None:
        """Why a key of the answer does nothing at present."""
        if key_id in {"answer.filter", "answer.export", "list.open"} and not self._rows():
            return "there is no row"
        return super().why_not(key_id)

    def _rows(self) -> tuple[tuple[object, ...], ...]:
        return () if self._answer is None else self._answer.rows

    @on(RowList.Opened, "#answer")
    def _open_row(self, event: RowList.Opened) -> None:
        row = self._rows()[event.index]
        column = event.rows.column
        self._look_up(texts_of([(row[column], *row)]), one=True)

    def action_filter_ops(self) -> None:
        """List the ops of the answer."""
        if self.allowed("answer.filter"):
            self._look_up(texts_of(self._rows()), one=False)

    @work(thread=True, exclusive=True, group="look-up", exit_on_error=False, description="look-up")
    def _look_up(self, names: list[str], *, one: bool) -> None:
        try:
            ops = self.owner.session.device_ops(names)
        except DivergraphError as error:
            self.notify(str(error), severity="error")
        else:
            self.post_message(self.Found(ops, one=one))

    @on(Found)
    def _found(self, event: Found) -> None:
        if not event.ops:
            self.notify("no op of the device in it", severity="warning")
        elif event.one:
            self.post_message(OpenOp(event.ops[0]))
        else:
            if len(event.ops) > _MOST:
                self.notify(f"the first {_MOST} of {wording.count(len(event.ops), 'op')}")
            self.post_message(OpenFilter(filter_of(event.ops[:_MOST])))

    def action_export(self) -> None:
        """Write the answer as CSV."""
        if self.allowed("answer.export") and self._answer is not None:
            self.write_answer(self._answer, f"{self.owner.session.target}-answer")


def texts_of(rows: list[tuple[object, ...]] | tuple[tuple[object, ...], ...]) -> list[str]:
    """The texts in *rows*, lists of them too, each once, in order."""
    texts: dict[str, None] = {}
    for row in rows:
        for value in row:
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, str) and one:
                    texts[one] = None
    return list(texts)


def filter_of(ops: tuple[str, ...]) -> str:
    """The filter that lets *ops* through."""
    return str(OpFilter((Term("id", Operator.FITS, tuple(Pattern((op,)) for op in ops), False),)))
