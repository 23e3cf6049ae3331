"""Columns of a list and how they share the width of a pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.widgets.cells import Align, Cut, width_of

OPTIONAL = 7
"""Columns of this priority and up are shown only where all others have room enough."""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One column. ``width`` is the least it needs, ``natural`` what shows all of it.

    ``priority`` 0 stays always, higher ones go first where the pane is narrow;
    ``sticky`` ones stay in place while the rest scrolls sideways.
    """

    id: str
    title: str
    width: int
    natural: int = 0
    align: Align = "left"
    cut: Cut = "right"
    priority: int = 0
    sticky: bool = False
    sortable: bool = True

    @property
    def comfort(self) -> int:
        """The width that shows most of it; optional columns leave before others get less."""
        return min(self.full, 2 * self.width)

    @property
    def full(self) -> int:
        """The width that shows everything, heading and sort mark included."""
        return max(self.width, self.natural, width_of(self.title) + (1 if self.sortable else 0))


@dataclass(frozen=True, slots=True)
class Placed:
    """A column at its place: number ``index`` of the source, ``width`` cells at ``x``."""

    index: int
    column: ListColumn
    x: int
    width: int


def place(columns: Sequence[ListColumn], room: int, *, wide: bool = False) -> tuple[Placed, ...]:
    """The columns that fit into *room* cells, in order, one or two blanks apart.

    With *wide* all of them in full width, however much that takes.
    """
    if wide:
        return _placed([(i, column, column.full) for i, column in enumerate(columns)], gap=2)
    placed_columns = _fitting_columns(columns, room)
    widths = {index: column.width for index, column in placed_columns}
    spare = room - sum(widths.values()) - (len(placed_columns) - 1)
    for index, column in sorted(placed_columns, key=lambda item: (item[1].priority, item[0])):
        more = min(spare, column.comfort - column.width)
        widths[index] += more
        spare -= more
    for index, column in sorted(placed_columns, key=lambda item: item[1].full - widths[item[0]]):
        more = min(spare, column.full - widths[index])
        widths[index] += more
        spare -= more
    gap = 2 if spare >= len(placed_columns) - 1 else 1
    return _placed([(index, column, widths[index]) for index, column in placed_columns], gap)


def _fitting_columns(columns: Sequence[ListColumn], room: int) -> list[tuple[int, ListColumn]]:
    indexed = list(enumerate(columns))
    while sum(column.comfort + 1 for _, column in indexed) - 1 > room:
        optional = [item for item in indexed if item[1].priority >= OPTIONAL]
        if not optional or len(indexed) == 1:
            break
        indexed.remove(max(optional, key=lambda item: (item[1].priority, item[0])))
    while len(indexed) > 1 and sum(column.width + 1 for _, column in indexed) - 1 > room:
        worst = max(indexed, key=lambda item: (item[1].priority, item[0]))
        if worst[1].priority == 0:
            break
        indexed.remove(worst)
    return indexed


def _placed(widths: list[tuple[int, ListColumn, int]], gap: int) -> tuple[Placed, ...]:
    placed, x = [], 0
    for index, column, width in widths:
        placed.append(Placed(index, column, x, width))
        x += width + gap
    return tuple(placed)
