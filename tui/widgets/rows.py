"""Rows of a list: their cells, and where a list gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        return self.rows[index]
