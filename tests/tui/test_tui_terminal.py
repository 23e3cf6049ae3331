"""The command on a real terminal: what it draws, how much it writes, what it never writes."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from hostile_run import hostile_throughout
from layered_run import analysed_run

from graphstore.open_store import open_store

terminals = pytest.importorskip("terminal", reason="needs a POSIX terminal")

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

FROM_THE_FRAMEWORK = re.compile(
    rb"\x1b\[[0-9;]*[mHKJABCD]"  # colours, the cursor, what is cleared
    rb"|\x1b\[[?>=<][0-9;]*[hlucq]"  # screens, the mouse, the keyboard
    rb"|\x1b\[\?[0-9]+\$p"  # whether the terminal draws at once
    rb"|\x1b\[[0-9;]*t"  # its size
    rb"|\x1b\[6n"
    rb"|\x1b\]22;[a-z-]+\x07"  # the pointer
)


@pytest.fixture
def started(tmp_path: Path):
    """Starts the terminal UI on a store, on a terminal of its own."""
    running = []

    def start(url: str, run: str, size=(120, 40), **environment: str):
        command = [sys.executable, "-m", "divergraph", "tui", "--store", url, run]
        known = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
        running.append(terminals.Terminal(command, size, {**known, **environment}, tmp_path))
        return running[-1]

    yield start
    for each in running:
        each.close()


VIEWS = "12345678"


def is_loaded(shown) -> bool:
    return not any(word in shown.text() for word in ("loading", "opening"))


def opened(shown, view: str) -> None:
    """Go to a view, and wait until it has all it asks the store for."""
    shown.press(view)
    shown.settle()
    shown.until(lambda: is_loaded(shown))
    shown.settle()


def different(lines, others) -> list[tuple[int, str, str]]:
    """The lines, as text, that are not alike."""
    return [
        (y, "".join(cell[0] for cell in line), "".join(cell[0] for cell in other))
        for y, (line, other) in enumerate(zip(lines, others, strict=True))
        if line != other
    ]


@pytest.mark.exhaustive
def test_little_is_written_and_the_screen_is_as_when_all_is_written_anew(started, whole_store):
    """At 120x40: a new screen 40 kB, a move of the cursor with its details 15 kB, without 4 kB."""

    def written(key: str) -> int:
        before = len(shown.output)
        shown.press(key)
        shown.settle()
        return len(shown.output) - before

    shown = started(whole_store, "whole")
    shown.until_shown("Where the error starts")
    for view in VIEWS[1:] + VIEWS[:1]:
        before = len(shown.output)
        opened(shown, view)
        assert len(shown.output) - before < 40_000, view
        for key in ("down", "tab", "pagedown", "?", "escape"):
            most = 40_000 if key in ("?", "escape") else 15_000
            assert written(key) < most, (view, key)
            seen, count = shown.shown(), len(shown.output)
            shown.press("ctrl+l")
            shown.until(lambda count=count: len(shown.output) > count + 5000)
            shown.settle()
            assert different(shown.shown(), seen) == [], (view, key)
    opened(shown, "0")
    for key in ("down", "up"):
        assert written(key) < 4_000, key


def test_what_a_slow_terminal_cannot_take_is_not_drawn(started, whole_store):
    shown = started(whole_store, "whole")
    shown.until_shown("Where the error starts")
    for view in "21":
        opened(shown, view)
    before = len(shown.output)
    for view in "21" * 20 + "2":
        shown.press(view)
    shown.until_at_rest()
    shown.until_shown("[2 Ops]")
    shown.settle()
    assert len(shown.output) - before < 150_000, "41 pictures of some 15 kB each"
    assert "[2 Ops]" in shown.text(), "the newest stays"
    seen, count = shown.shown(), len(shown.output)
    shown.press("ctrl+l")
    shown.until(lambda: len(shown.output) > count + 5000)
    shown.settle()
    assert different(shown.shown(), seen) == []


def test_nothing_but_the_framework_speaks_to_the_terminal(started, tmp_path):
    """A run all of whose texts are hostile, in every view, with what each copies."""
    url = str(tmp_path / "strangers")
    with open_store(url) as store:
        store.save_run(hostile_throughout(analysed_run("layers")))
    shown = started(url, "layers", (160, 50))
    shown.until_shown("Where the error starts")
    for view in VIEWS:
        opened(shown, view)
        for key in ("j", "enter", "escape", "L", "escape", "f1", "escape", "at", "escape"):
            shown.press("@" if key == "at" else key)
            shown.settle(0.2)
    rest = FROM_THE_FRAMEWORK.sub(b"", shown.output)
    assert b"\x1b" not in rest, re.findall(rb"\x1b.{20}", rest)[:5]
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", rest)
    assert not re.search("[\x80-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", rest.decode())


@pytest.mark.parametrize(
    "size", [(60, 20), pytest.param((200, 60), marks=pytest.mark.exhaustive)], ids=["60", "200"]
)
def test_it_can_be_resized_at_any_moment(started, whole_store, size):
    shown = started(whole_store, "whole", (120, 40))
    shown.resize(size)
    shown.until_shown("DIVERGED")
    for view, other in zip(VIEWS, [size, (120, 40)] * 4, strict=True):
        shown.press(view)
        shown.resize(other)
        shown.settle()
        shown.until(lambda: is_loaded(shown))
        shown.settle()
        assert shown.text().splitlines()[0].startswith(" divergraph"), view
        before = shown.shown()
        shown.press("ctrl+l")
        shown.settle()
        assert different(shown.shown(), before) == [], view
        if view == "7":
            shown.press("escape")  # what is typed goes into its field
            shown.settle()
    shown.press("ctrl+c")
    shown.until_written(terminals.LEAVE_SCREEN)
    assert shown.exit_code() == 0


WAYS_OUT = [
    pytest.param(leave, view, marks=[pytest.mark.exhaustive] if view not in "157" else [])
    for leave in ("q", "ctrl+c", "SIGTERM")
    for view in VIEWS
    if (leave, view) != ("q", "7")  # there, letters are text
]


@pytest.mark.parametrize(("leave", "view"), WAYS_OUT)
def test_every_view_can_be_left(started, whole_store, leave, view):
    """At once, while the view still asks the store."""
    shown = started(whole_store, "whole", (80, 24))
    shown.until_shown("DIVERGED")
    shown.press(view)
    if leave == "SIGTERM":
        os.kill(shown.pid, signal.SIGTERM)
    else:
        shown.press(leave)
    shown.until_written(terminals.LEAVE_SCREEN)
    assert shown.exit_code() == (128 + signal.SIGTERM if leave == "SIGTERM" else 0)


def test_two_of_them_on_one_store(started, whole_store):
    one, other = started(whole_store, "whole"), started(whole_store, "gone")
    for shown in (one, other):
        shown.until_shown("Where the error starts")
    for view in "24":
        for shown in (one, other):
            opened(shown, view)
            assert "divergraph" in shown.text()
            assert "trouble" not in shown.text().lower()


def test_a_store_that_goes_away_leaves_what_was_seen(started, tmp_path):
    url = tmp_path / "store"
    with open_store(str(url)) as store:
        store.save_run(analysed_run("layers"))
    shown = started(str(url), "layers")
    shown.until_shown("Where the error starts")
    url.rename(tmp_path / "elsewhere")
    opened(shown, "5")
    assert "divergraph" in shown.text()
    url.parent.joinpath("elsewhere").rename(url)
    opened(shown, "R")
    opened(shown, "1")
    assert "Where the error starts" in shown.text()
    shown.press("q")
    assert shown.exit_code() == 0
