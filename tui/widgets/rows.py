"""Rows of a list: their cells, and where a list gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn

STYLES = (
    "origin",
    "inherited",
    "drifting",
    "explained",
    "clean",
    "broken",
    "alarm",
    "unknown",
    "fused",
    "linked",
    "quiet",
)
"""Names a cell may give as its style; the style sheet says what they look like."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, one of ``STYLES`` or nothing, and a tail that is never cut."""

    text: str
    style: str = ""
    tail: str = ""
    tail_style: str = ""


class RowSource(Protocol):
    """Where a list gets its rows; asked only for those on screen."""

    @property
    def columns(self) -> Sequence[ListColumn]:
        """The columns, in order."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row, one for each column."""


@dataclass(frozen=True, slots=True)
class FixedRows:
    """Rows that are already there."""

    columns: Sequence[ListColumn]
    rows: Sequence[Sequence[Cell]] = ()

    def __post_init__(self) -> None:
        """A column that does not say what it needs needs its widest cell."""
        columns = [
            column if column.natural else replace(column, natural=self._widest(place))
            for place, column in enumerate(self.columns)
        ]
        object.__setattr__(self, "columns", columns)

    def _widest(self, place: int) -> int:
        cells = (row[place] for row in self.rows)
        return max((width_of(cell.text) + width_of(cell.tail) for cell in cells), default=0)

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        return self.rows[index]
