"""Pictures in pixels: what is sent, to which terminals, and that none stays behind."""

from __future__ import annotations

import base64
import re
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.color import ColorSystem
from terminal import row_of
from textual.geometry import Region

from divergraph.dump_diff.error_picture import ErrorMap, ValueScatter
from graphstore.errors import ConfigError
from tui.render.tensors.pictures import heat_picture, scatter_picture
from tui.settings import load_settings
from tui.style.theme import DARK
from tui.terminal.changed_cells import TerminalCells
from tui.terminal.pixels import (
    Picture,
    PixelProtocol,
    PixelTerminal,
    PlacedPicture,
    drawn,
    pixel_terminal,
)

PALETTE = ((0, 0, 0), (255, 0, 0), (51, 102, 204), (255, 255, 255))
KITTY, SIXEL = (PixelTerminal(each, (4, 8)) for each in (PixelProtocol.KITTY, PixelProtocol.SIXEL))
numbers_of_colors = arrays(
    np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 30)), elements=st.integers(0, 3)
)


def placed(numbers, columns, rows) -> PlacedPicture:
    region = Region(3, 2, columns, rows)
    return PlacedPicture(Picture(numbers, PALETTE, Region(0, 0, columns, rows)), region)


def scaled(numbers, columns, rows):
    height, width = rows * 8, columns * 4
    down = [row * numbers.shape[0] // height for row in range(height)]
    across = [column * numbers.shape[1] // width for column in range(width)]
    return numbers[np.ix_(down, across)]


def sixels_read(text: str, height: int, width: int) -> np.ndarray:
    """The pixels of a sixel sequence by the standard's words: numbers of colours, -1 where none."""
    seen = np.full((height + 5, width), -1)
    top = x = color = 0
    body = re.fullmatch(r"\x1bPq\"1;1;\d+;\d+(.*)\x1b\\", text, re.DOTALL)[1]
    for what, number, count, sign in re.findall(
        r"(#(\d+)(?:;2;\d+;\d+;\d+)?)|!?(\d*)([?-~$-])", body
    ):
        if what:
            color = int(number)
        elif sign == "$":
            x = 0
        elif sign == "-":
            top, x = top + 6, 0
        else:
            bits, run = ord(sign) - 63, int(count or 1)
            for row in range(6):
                if bits >> row & 1:
                    seen[top + row, x : x + run] = color
            x += run
    return seen[:height]


@given(numbers_of_colors, st.integers(1, 6), st.integers(1, 4))
def test_sixels_are_the_picture(numbers, columns, rows):
    head, _, text = drawn(placed(numbers, columns, rows), SIXEL).partition("H")
    assert head == "\x1b[3;4"
    expected = scaled(numbers, columns, rows)
    assert (sixels_read(text, *expected.shape) == expected).all()


@given(numbers_of_colors, st.integers(1, 6), st.integers(1, 4))
def test_kitty_gets_the_picture(numbers, columns, rows):
    text = drawn(placed(numbers, columns, rows), KITTY)
    sequences = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    told = dict(part.split("=") for part in sequences[0][0].split(","))
    assert [each[0][-3:] for each in sequences] == ["m=1"] * (len(sequences) - 1) + ["m=0"]
    data = zlib.decompress(base64.b64decode("".join(each[1] for each in sequences)))
    seen = np.frombuffer(data, np.uint8).reshape(int(told["v"]), int(told["s"]), 3)
    assert (seen == np.array(PALETTE, np.uint8)[scaled(numbers, columns, rows)]).all()
    assert (told["c"], told["r"]) == (str(columns), str(rows))


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "kitty"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "ghostty"}, None),
        ({}, None),
    ],
)
def test_terminals_are_known_by_their_environment(monkeypatch, environment, protocol):
    monkeypatch.setattr("tui.terminal.pixels._cell_size", lambda: (8, 16))
    found = pixel_terminal(environment)
    assert (None if found is None else found.protocol) == protocol
    assert pixel_terminal(environment, "off") is None
    assert pixel_terminal(environment, "sixel") == PixelTerminal(PixelProtocol.SIXEL, (8, 16))


def test_without_the_size_of_a_cell_there_are_no_pictures():
    """The tests' standard output is no terminal."""
    assert pixel_terminal({"TERM": "xterm-kitty"}) is None


def test_an_unknown_way_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="no way to send pictures named 'sixels'"):
        load_settings({"DIVERGRAPH_PIXELS": "sixels"})


def test_a_picture_is_drawn_again_where_cells_below_it_are_written():
    cells = TerminalCells(KITTY)
    picture = PlacedPicture(
        Picture(np.zeros((1, 1), np.uint8), PALETTE, Region(0, 0, 2, 1)), Region(1, 0, 2, 1)
    )
    write = lambda text: cells.write(row_of(text), ColorSystem.TRUECOLOR)  # noqa: E731
    assert "\x1b_G" not in write("abcdef")
    assert cells.place((picture,))
    assert not cells.place((picture,))
    first = write("abcdef")
    assert first.index("abcdef") < first.index("a=T"), "over the cells, so after them"
    assert write("abcdeX").count("\x1b_G") == 0
    assert write("aXcdeX").count("a=T") == 1
    assert cells.place(())
    gone = write("aXcdeX")
    assert gone.startswith("\x1b_Ga=d")
    assert "a=T" not in gone
    assert "aXcdeX" in gone, "over sixels, too, one only has to write"


def test_the_map_in_pixels_covers_the_one_in_cells():
    colors = {**DARK.variables, "background": DARK.background, "foreground": DARK.foreground}
    means = np.zeros((40, 64))
    means[3, 5], means[7, 7] = 2.0, np.inf
    picture = heat_picture(ErrorMap((0, 1), (1, 1), means), (10, 16), colors, 60, 12)
    assert picture.place == Region(9, 0, 48, 10)
    levels = picture.numbers
    assert levels[0, 0] == 0
    assert levels[3, 5] == 31
    assert levels[7, 7] == 32
    counts = np.zeros((64, 64), int)
    counts[10, 10] = counts[10, 50] = 1
    plot = scatter_picture(ValueScatter(counts, 0.0, 1.0, 2), colors, 60, 12)
    assert plot.numbers[63 - 10, 10] == 2
    assert plot.numbers[63 - 10, 50] == 3
    assert plot.place == Region(9, 0, 51, 10)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX terminal")
def test_a_view_that_is_left_takes_its_pictures_along(valued_store, tmp_path):
    from terminal import Terminal

    command = [sys.executable, "-m", "divergraph", "tui", "--store", valued_store, "values"]
    state = {"XDG_STATE_HOME": str(tmp_path), "DIVERGRAPH_PIXELS": "kitty"}
    shown = Terminal(command, (120, 40), state, tmp_path, cell=(8, 16))
    try:
        shown.until_shown("Where the error starts")
        assert b"\x1b_G" not in shown.output
        shown.press("6")
        shown.until(lambda: b"a=T" in shown.output)
        shown.settle()
        before = len(shown.output)
        shown.press("1")
        shown.settle()
        assert shown.output[before:].count(b"\x1b_Ga=d") == 1
        assert b"a=T" not in shown.output[before:]
    finally:
        shown.close()
