"""What can be done with the rows of an answer: open an op, list its ops, write them to a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on

from graphstore.filter.fields import Operator
from graphstore.filter.terms import OpFilter, Pattern, Term
from tui.messages import OpenFilter, OpenOp, ask
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
        names = texts_of([(row[event.rows.column], *row)])
        self._look_up(names, lambda ops: self.post_message(OpenOp(ops[0])))

    def action_filter_ops(self) -> None:
        """List the ops of the answer."""
        if self.allowed("answer.filter"):
            self._look_up(texts_of(self._rows()), self._list_ops)

    def _look_up(self, names: list[str], then: Callable[[tuple[str, ...]], object]) -> None:
        """Find the device ops among *names*, or those that names became by their lineage."""

        def found(ops: tuple[str, ...]) -> None:
            if ops:
                then(ops)
            else:
                self.notify("no op of the device in it", severity="warning")

        ask(self, "look-up", lambda: self.owner.session.device_ops(names), found)

    def _list_ops(self, ops: tuple[str, ...]) -> None:
        if len(ops) > _MOST:
            self.notify(f"the first {_MOST} of {wording.count(len(ops), 'op')}")
        self.post_message(OpenFilter(filter_of(ops[:_MOST])))

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
