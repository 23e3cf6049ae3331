"""Only cells that differ are written, and the terminal shows the same as if all were."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from terminal import cells_of, row_of
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tui.terminal.changed_cells import TerminalCells

WIDTH, HEIGHT = 24, 3
STYLES = (
    None,
    Style(),
    Style(color="#102030"),
    Style(color="#102030", bgcolor="#405060"),
    Style(bold=True, color="red"),
    Style(reverse=True, bgcolor="#405060"),
)
PLAIN_TEXT = st.text("ab .╭─█⣀é", min_size=1, max_size=9)
WIDE_TEXT = st.lists(st.sampled_from(("a", "漢", "字", "e\u0301", "ﾊ")), min_size=1).map("".join)


def strips(texts):
    parts = st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=5)
    return parts.map(lambda known: _filled([Segment(text, style) for text, style in known]))


def _filled(segments):
    strip = Strip(segments)
    return strip.adjust_cell_length(WIDTH) if strip.cell_length < WIDTH else strip.crop(0, WIDTH)


def whole_screens(texts):
    lines = st.lists(strips(texts), min_size=HEIGHT, max_size=HEIGHT)
    return lines.map(lambda known: LayoutUpdate([[line] for line in known], Region(0, 0, WIDTH, 3)))


@st.composite
def parts_of_screens(draw, texts):
    """An update of some of the cells of two panes side by side."""
    cut = draw(st.integers(1, WIDTH - 1))
    chops = [
        {0: line.crop(0, cut), cut: line.crop(cut, WIDTH)}
        for line in draw(st.lists(strips(texts), min_size=HEIGHT, max_size=HEIGHT))
    ]
    left = draw(st.sampled_from((0, cut)))
    right = cut if left == 0 else WIDTH
    spans = [(y, left, right) for y in range(HEIGHT) if draw(st.booleans())]
    return ChopsUpdate(chops, spans or [(0, left, right)], [[cut, WIDTH]] * HEIGHT)


def updates_of_panes():
    later = st.one_of(whole_screens(PLAIN_TEXT), parts_of_screens(PLAIN_TEXT))
    first = whole_screens(PLAIN_TEXT)
    return st.tuples(first, st.lists(later, max_size=4)).map(lambda known: [known[0], *known[1]])


class Drawn:
    def __init__(self):
        # Wider than what is drawn: the emulator scrolls at an accent in its last column.
        self.screen = pyte.Screen(WIDTH + 1, HEIGHT)
        self.stream = pyte.Stream(self.screen)


@settings(max_examples=100, deadline=None)
@given(updates_of_panes())
def test_the_terminal_shows_what_it_would_show(those):
    console = Console(color_system="truecolor", force_terminal=True)
    cells, few, all_ = TerminalCells(), Drawn(), Drawn()
    for update in those:
        few.stream.feed(cells.only_changes(update).render_segments(console))
        all_.stream.feed(update.render_segments(console))
        assert cells_of(few.screen) == cells_of(all_.screen)


@settings(max_examples=100, deadline=None)
@given(st.lists(whole_screens(st.one_of(PLAIN_TEXT, WIDE_TEXT)), max_size=5))
def test_text_of_other_widths_is_written_whole(those):
    console = Console(color_system="truecolor", force_terminal=True)
    cells, few, all_ = TerminalCells(), Drawn(), Drawn()
    for update in those:
        few.stream.feed(cells.only_changes(update).render_segments(console))
        all_.stream.feed(update.render_segments(console))
        assert cells_of(few.screen) == cells_of(all_.screen)


def test_a_second_time_nothing_is_written():
    cells = TerminalCells()
    assert "same" in cells.write(row_of("same"), ColorSystem.TRUECOLOR)
    assert cells.write(row_of("same"), ColorSystem.TRUECOLOR) == ""
    assert cells.write(row_of("sane"), ColorSystem.TRUECOLOR) == "\x1b[1;3H\x1b[0mn\x1b[0m"


def test_far_apart_changes_are_jumped_to_and_near_ones_are_not():
    cells = TerminalCells()
    cells.write(row_of("0123456789abcdef"), ColorSystem.TRUECOLOR)
    both = cells.write(row_of("X123456789abcdeX"), ColorSystem.TRUECOLOR)
    assert both.count("H") == 2
    assert "123" not in both
    assert cells.write(row_of("Y12Y456789abcdeX"), ColorSystem.TRUECOLOR).count("H") == 1


def test_what_is_forgotten_is_written_again():
    cells = TerminalCells()
    cells.write(row_of("same"), ColorSystem.TRUECOLOR)
    cells.forget()
    assert "same" in cells.write(row_of("same"), ColorSystem.TRUECOLOR)
