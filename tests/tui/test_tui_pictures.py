"""Every view and every window in three sizes, against the text kept in ``__snapshots__``
(``pytest --snapshot-update``); windows in the middle, whole, named, and they say how they close; in
each theme every word can be read."""

from __future__ import annotations

import pkgutil
import re
import time
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
from browsing import Browser, text_of
from contrast import LEAST, contrast
from jobs_on_screen import NOW, jobs_app, jobs_of_the_past, shelf_of
from places_on_screen import JOB_VIEWS, JOB_WINDOWS, VIEWS, WINDOWS, Place
from rich.segment import Segment
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.color import Color
from textual.screen import ModalScreen, Screen

import tui
from divergraph.jobs.background.job_files import LOCK
from graphstore.file_lock import held_lock
from tui.app import DivergraphApp
from tui.screens.windows.overlays import ChoiceOverlay, Overlay, Window
from tui.settings import THEMES

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SIZES = [(60, 20), (120, 40), (200, 60)]


class KeptText(SingleFileSnapshotExtension):
    """A file of text for each picture: its differences are read as such."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


@pytest.fixture
def kept(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(KeptText)


@pytest.fixture(autouse=True)
def the_same_time_everywhere(monkeypatch, tmp_path):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("tui.screens.jobs.present", lambda: NOW)
    monkeypatch.chdir(tmp_path)
    yield
    monkeypatch.undo()
    time.tzset()


def every_window() -> set[type]:
    """The classes of windows that the product has."""
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        import_module(module.name)
    found, left = set(), [ModalScreen]
    while left:
        for kind in left.pop().__subclasses__():
            left.append(kind)
            if kind.__module__.startswith("tui."):
                found.add(kind)
    return found


def test_none_is_left_out_here():
    tried = {place.kind for place in (*WINDOWS.values(), *JOB_WINDOWS.values())}
    assert every_window() - tried == {Overlay, ChoiceOverlay}


async def seen(b: Browser, place: Place, kept: SnapshotAssertion) -> None:
    """Go to the place, and look at it in each size, then in each theme."""
    await b.press(*place.keys)
    assert isinstance(b.app.screen, place.kind)
    b.app.clear_notifications()
    pictures = []
    for width, height in SIZES:
        await b.pilot.resize_terminal(width, height)
        await b.settle(b.pilot)
        if place.kind is not Screen:
            in_the_middle_and_whole(b.app, width, height)
        text = re.sub(r"\d+ ms\b", "0 ms", text_of(b.app))
        pictures.append("\n".join(line.rstrip() for line in text.splitlines()))
    assert "\n".join(pictures) + "\n" == kept
    await b.pilot.resize_terminal(*SIZES[1])
    for name, theme in THEMES.items():
        b.app.theme = theme
        await b.settle(b.pilot)
        assert not hard_to_read(b.app, LEAST[name]), name
    if place.kind is not Screen:
        await b.press("escape")
        assert not isinstance(b.app.screen, ModalScreen)


def in_the_middle_and_whole(app: DivergraphApp, width: int, height: int) -> None:
    """The window over the view, which says what it is and how it closes."""
    window = app.screen.query_one(Window)
    box = window.region
    assert app.screen.region.contains_region(box), "nothing of it is outside"
    assert abs(box.x - (width - box.right)) <= 1
    assert abs(box.y - (height - box.bottom)) <= 1
    assert window.border_title
    assert "esc" in str(window.border_subtitle)
    for part in window.walk_children():
        if part.display and part.focusable:
            assert part.region.height > 0, "what can be typed into or walked through is seen"


def hard_to_read(app: DivergraphApp, least: float) -> list[str]:
    """The words on screen, of its window if there is one, whose colour is too near that behind
    them; not the keys that do nothing here, which say so by their colour."""
    window = app.screen.query(Window)
    box = window.first().region if window else app.screen.region
    strips = app.screen._compositor.render_strips()
    shown = [strip.crop(box.x, box.right) for strip in strips[box.y : box.bottom]]
    return [
        f"{contrast_of(segment):.1f} {segment.text!r} {segment.style}"
        for segment in chain.from_iterable(shown)
        if any(map(str.isalnum, segment.text))
        and segment.style
        and not segment.style.dim
        and contrast_of(segment) < least
    ]


def contrast_of(segment: Segment) -> float:
    """The ratio of a text's lightness and that behind it."""
    assert segment.style is not None
    front, behind = segment.style.color, segment.style.bgcolor
    if front is None or behind is None or front.triplet is None or behind.triplet is None:
        return 21.0  # the terminal's own
    if segment.style.reverse:
        front, behind = behind, front
    return contrast(Color.from_rich_color(front), Color.from_rich_color(behind))


@pytest.mark.parametrize("name", [*VIEWS, *WINDOWS])
async def test_on_a_run(make_app, settle, request, kept, name):
    place = (VIEWS | WINDOWS)[name]
    app = make_app(request.getfixturevalue(place.store), place.run)
    app.settings = replace(app.settings, export_dir=Path("/parts"))
    async with Browser(app, settle) as b:
        await seen(b, place, kept)


@pytest.mark.parametrize("name", [*JOB_VIEWS, *JOB_WINDOWS])
async def test_on_jobs(settle, tmp_path, kept, name):
    place = (JOB_VIEWS | JOB_WINDOWS)[name]
    jobs_of_the_past(tmp_path, store=tmp_path / ".divergraph")
    newest = max(shelf_of(tmp_path).root.iterdir())
    with held_lock(newest / LOCK):
        async with Browser(jobs_app(".divergraph", tmp_path), settle) as b:
            await seen(b, place, kept)
