"""Where the cells of an answer's tables lead: to the ops and runs that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from divergraph.ask.facts import load_facts
from divergraph.ask.question import Question, answer_of, fields_of, is_about_run, row_kind
from divergraph.present.declared_answer import AnswerTable
from divergraph.server.pages.links import Links
from graphstore.contract import GraphStore


class RowLinks:
    """Columns say whose device ops they name, and which name runs; ops of the golden graph have
    pages of their own."""

    def __init__(
        self, kind: type[Question[Any]], question: Question[Any], store: GraphStore
    ) -> None:
        tables = () if kind.shapes else fields_of(answer_of(kind))
        rows = [row for row in (row_kind(table.kind) for table in tables) if row is not None]
        columns = [field for row in rows for field in fields_of(row)]
        asked = {field.name for field in fields_of(kind)}
        owners = {
            column.name: column.about.op_of
            for column in columns
            if column.about.op_of in asked or column.about.op_of.startswith(".")
        }
        if is_about_run(kind):
            owners = {"op": "run", "device": "run", **owners}
        self._runs = {column.name for column in columns if column.about.is_run}
        self._of_row = {name: field[1:] for name, field in owners.items() if field[0] == "."}
        self._of_question: Mapping[str, tuple[str, Mapping[str, int]]] = {
            name: (run := str(getattr(question, field)), load_facts(store, run).arrays.number)
            for name, field in owners.items()
            if field[0] != "."
        }

    def address(self, table: AnswerTable, row: Sequence[str], column: int) -> str:
        """Where a cell of a *row* leads; empty: nowhere."""
        name, text = table.names[column], row[column]
        if name in self._of_question:
            run, ops = self._of_question[name]
            return Links().op(run, text) if text in ops else ""
        if text == "-":  # nothing is named
            return ""
        if (owner := self._of_row.get(name)) in table.names:
            return Links().op(row[table.names.index(owner)], text)
        return Links().run(text) if name in self._runs else ""
