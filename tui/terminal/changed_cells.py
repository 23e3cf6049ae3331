"""What the terminal already shows is not written again.

The framework writes all lines of every widget that drew itself anew: 40 kB for a cursor that
moves by one row beside a pane of details, which a slow line shows a second later. Here the cells
that were written are remembered, and of an update only those that differ are written: 2 to 4 kB.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tui.terminal.pixels import PixelTerminal, PlacedPicture, drawn, removed

GAP = 6
"""Unchanged cells that are rather written again than jumped over; a jump takes 6 to 9 bytes."""


class CellLook(NamedTuple):
    """How a cell looks, in parameters of the terminal's sequence for it (ECMA-48, SGR)."""

    attributes: str
    color: str
    background: str


PLAIN = CellLook("0", "39", "49")
_RESET = "\x1b[0m"


class TerminalCell(NamedTuple):
    """What is written into a cell, and its look."""

    text: str
    look: CellLook


class LinePiece(NamedTuple):
    """Cells that stand side by side from column ``x`` of line ``y``."""

    y: int
    x: int
    cells: list[TerminalCell]
    divisible: bool
    """Whether some of the cells can be written alone."""


class TerminalCells:
    """The cells that a terminal shows, as far as they were written through here."""

    def __init__(self, pixels: PixelTerminal | None = None) -> None:
        self._pixels = pixels
        self._shown: dict[int, dict[int, TerminalCell]] = {}
        self._region = Region()
        self._pictures: tuple[PlacedPicture, ...] = ()
        self._taken_away = False

    def forget(self) -> None:
        """Know nothing: the terminal was cleared, resized or written to by others."""
        self._shown.clear()

    def place(self, pictures: tuple[PlacedPicture, ...]) -> bool:
        """Have *pictures* over the cells from the next update on; True if there are others now,
        for which the whole screen must be written."""
        if self._pixels is None or pictures == self._pictures:
            return False
        self._pictures = pictures
        self._taken_away = True
        self.forget()
        return True

    def only_changes(self, update: CompositorUpdate) -> CompositorUpdate:
        """*update*, that writes what differs from the terminal at the moment it is written."""
        return _Changes(self, update)

    def write(self, update: CompositorUpdate, colors: ColorSystem) -> str:
        """The text that brings the terminal from what it shows to *update*."""
        if isinstance(update, LayoutUpdate) and update.region != self._region:
            # What was last drawn for the old size may have been written at the new one.
            self.forget()
            self._region = update.region
        written: list[str] = []
        covered = set()
        if self._taken_away and self._pixels is not None:
            written.append(removed(self._pixels))
            self._taken_away = False
        look: CellLook | None = None
        for piece in pieces_of(update, colors):
            line_cells = self._shown.setdefault(piece.y, {})
            for start, stop in changed_spans(line_cells, piece):
                written.append(f"\x1b[{piece.y + 1};{piece.x + start + 1}H")
                # The look goes on behind a jump: to set it anew for each span is a tenth of a view.
                written.append(painted(piece.cells[start:stop], look))
                look = piece.cells[stop - 1].look
                span = Region(piece.x + start, piece.y, stop - start, 1)
                covered |= {picture for picture in self._pictures if picture.region.overlaps(span)}
            line_cells.update(enumerate(piece.cells, piece.x))
        if look is not None:
            written.append(_RESET)
        written += [drawn(picture, self._pixels) for picture in covered if self._pixels is not None]
        return "".join(written)


class _Changes(CompositorUpdate):
    def __init__(self, terminal: TerminalCells, update: CompositorUpdate) -> None:
        self._terminal = terminal
        self._update = update

    def render_segments(self, console: Console) -> str:
        colors = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        return self._terminal.write(self._update, colors)


def pieces_of(update: CompositorUpdate, colors: ColorSystem) -> Iterator[LinePiece]:
    """The cells of *update*, in the order in which the framework writes them."""
    for y, x, strip in _strips_of(update):
        yield _piece(y, x, strip, colors)


def _strips_of(update: CompositorUpdate) -> Iterator[tuple[int, int, Strip]]:
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            yield y, update.region.x, Strip.join(strips)
    elif isinstance(update, ChopsUpdate):
        for y, start, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is not None and x <= right and end > start:
                    yield y, x, strip.crop(0, min(end, right) - x)
    else:
        raise TypeError(f"an update of the screen of an unknown kind: {type(update).__name__}")


def _piece(y: int, x: int, strip: Strip, colors: ColorSystem) -> LinePiece:
    segments = [(text, look_of(style, colors)) for text, style, control in strip if not control]
    if all(one_cell_each(text) for text, _ in segments):
        return LinePiece(
            y, x, [TerminalCell(char, look) for text, look in segments for char in text], True
        )
    # Terminals do not agree how wide such text is. Written whole, from its first cell, it is drawn
    # as if nothing had been left out.
    blank = [TerminalCell("", look) for text, look in segments for _ in range(cell_len(text))]
    text = painted([TerminalCell(text, look) for text, look in segments]) + _RESET
    return LinePiece(y, x, [TerminalCell(text, PLAIN), *blank[1:]], False)


@lru_cache(4096)
def one_cell_each(text: str) -> bool:
    """Whether each character of *text* takes one cell."""
    return text.isascii() or all(get_character_cell_size(char) == 1 for char in text)


@lru_cache(4096)
def look_of(style: Style | None, colors: ColorSystem) -> CellLook:
    """The look of *style* in a terminal that knows *colors*."""
    if style is None:
        return PLAIN
    attributes = Strip.render_ansi(style.without_color, colors)
    color, background = style.color, style.bgcolor
    return CellLook(
        f"0;{attributes}" if attributes else "0",
        ";".join(color.downgrade(colors).get_ansi_codes()) if color else "39",
        ";".join(background.downgrade(colors).get_ansi_codes(foreground=False))
        if background
        else "49",
    )


def changed_spans(
    line_cells: dict[int, TerminalCell], piece: LinePiece
) -> Iterator[tuple[int, int]]:
    """From which cell of *piece* to which other one it differs from *line_cells*."""
    start = stop = -1
    for place, cell in enumerate(piece.cells):
        if line_cells.get(piece.x + place) == cell:
            continue
        if start >= 0 and place - stop > GAP and piece.divisible:
            yield start, stop
            start = -1
        if start < 0:
            start = place
        stop = place + 1
    if start >= 0:
        yield (start, stop) if piece.divisible else (0, len(piece.cells))


def painted(cells: list[TerminalCell], now: CellLook | None = None) -> str:
    """The text that writes *cells* where the terminal's cursor is; *now* is the look that holds
    there, None if it is not known. The look of the last cell holds behind it."""
    written: list[str] = []
    for cell in cells:
        if cell.look != now:
            written.append(_change(now, cell.look))
            now = cell.look
        written.append(cell.text)
    return "".join(written)


def _change(now: CellLook | None, to: CellLook) -> str:
    if now is None or now.attributes != to.attributes:
        colors = (code for code in (to.color, to.background) if code not in ("39", "49"))
        return f"\x1b[{';'.join((to.attributes, *colors))}m"
    changed = (new for old, new in zip(now[1:], to[1:], strict=True) if old != new)
    return f"\x1b[{';'.join(changed)}m"
