"""Maps of states in the cells of a terminal: a mark for each field, in the colour of its state."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style

from divergraph.present.pictures.state_map import StateMap
from divergraph.text.printable import printable
from divergraph.text.short_names import ShortNames, cut_in_middle
from graphstore.model import OpState
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit, width_of

_WIDEST = 9
"""Cells of a column."""


def state_map_text(picture: StateMap, glyphs: Glyphs, width: int) -> Content:
    """Rows of marks below the names of the columns, and a legend; columns that do not fit are
    counted. A click on a mark is the screen's action ``open_cell``, with the cell's number."""
    rows = [printable(name) for name in picture.rows]
    short_names = ShortNames(rows)
    room = max(12, width // 3)
    rows = [short_names.short(name, room, glyphs.ellipsis) for name in rows]
    names = max(map(width_of, [*rows, picture.across]), default=0)
    wide = max(2, min(_WIDEST, (width - names - 2) // max(1, len(picture.columns))))
    shown = min(len(picture.columns), max(1, (width - names - 2) // wide))
    places = {(cell.row, cell.column): number for number, cell in enumerate(picture.cells)}
    lines = [_heading(picture, names, wide, shown, glyphs)]
    for number, name in enumerate(rows):
        marks = [_field(picture, places.get((number, at)), wide, glyphs) for at in range(shown)]
        lines.append(Content.assemble(f"{fit(name, names, glyphs.ellipsis)}  ", *marks))
    legend = [
        Content.assemble(_mark(state, 2, glyphs), state.value, "   ") for state in picture.legend
    ]
    if hidden := len(picture.columns) - shown:
        legend.append(Content.styled(f"and {hidden} more to the right", theme.QUIET))
    lines += [Content(""), Content.assemble(*legend)]
    return Content("\n").join(lines)


def _heading(picture: StateMap, names: int, wide: int, shown: int, glyphs: Glyphs) -> Content:
    every = 1 if wide > 2 else max(1, -(-(max(map(len, picture.columns)) + 1) // wide))
    texts = []
    for number in range(0, shown, every):
        room = wide * min(every, shown - number)
        name = cut_in_middle(printable(picture.columns[number]), room - 1, glyphs.ellipsis)
        texts.append(fit(name, room, glyphs.ellipsis))
    head = fit(picture.across, names, glyphs.ellipsis, "right")
    return Content.styled(f"{head}  {''.join(texts)}".rstrip(), theme.HEADING)


def _field(picture: StateMap, number: int | None, wide: int, glyphs: Glyphs) -> Content:
    if number is None:
        return Content(" " * wide)
    mark = _mark(picture.cells[number].state, wide, glyphs)
    return mark.stylize(Style.from_meta({"@click": f"screen.open_cell({number})"}))


def _mark(state: OpState, wide: int, glyphs: Glyphs) -> Content:
    return Content.styled(glyphs.state(state).ljust(wide), theme.STATE_STYLES[state])
