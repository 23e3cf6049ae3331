"""The rows of an answer in Cypher as a list shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from divergraph.text.numbers import short
from graphstore.contract import QueryResult
from graphstore.cypher.user_question import cell_text
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

_LOOKED_AT = 200
"""Rows whose widths decide those of the columns."""
_LEAST, _MOST = 4, 60


@dataclass
class AnswerRows:
    """The rows of *answer*."""

    answer: QueryResult = field(default_factory=lambda: QueryResult((), ()))

    @cached_property
    def columns(self) -> Sequence[ListColumn]:
        """One column for each of the answer; numbers stand at the right."""
        columns = []
        for at, name in enumerate(self.answer.columns):
            values = [row[at] for row in self.answer.rows[:_LOOKED_AT]]
            numbers = all(isinstance(value, int | float) for value in values) and values
            natural = max((width_of(_text(value)) for value in values), default=0)
            width = max(_LEAST, min(natural, _MOST // 4))
            columns.append(
                ListColumn(
                    str(at),
                    name,
                    width,
                    natural,
                    "right" if numbers else "left",
                    "right",
                    sortable=False,
                )
            )
        return columns

    def __len__(self) -> int:
        return len(self.answer.rows)

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        return [Cell(_text(value)) for value in self.answer.rows[index]]


def _text(value: object) -> str:
    return short(value, ".6g") if isinstance(value, float) else cell_text(value)
