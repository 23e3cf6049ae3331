"""Every window that opens over a view: in the middle, whole, named, and it says how it closes."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
from browsing import Browser
from jobs_on_screen import jobs_app, jobs_of_the_past
from layered_run import analysed_run, made_run
from textual.screen import ModalScreen

import tui
from divergraph.ask import open_store
from tui.screens.edges import EdgeOverlay
from tui.screens.windows.changes import ChangesOverlay
from tui.screens.windows.choose_command import ChooseCommandOverlay
from tui.screens.windows.export_form import ExportForm
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.leave import LeaveOverlay
from tui.screens.windows.line_form import LineForm
from tui.screens.windows.neighbourhood import NeighbourhoodOverlay
from tui.screens.windows.overlays import LogOverlay, Overlay, TextOverlay, Window, YankOverlay
from tui.screens.windows.why import WhyOverlay

pytestmark = pytest.mark.slow

SIZES = [(60, 20), (200, 60)]

ON_A_RUN = {
    "help": (("2", "question_mark"), TextOverlay),
    "words": (("2", "f1"), TextOverlay),
    "details": (("2", "f", "enter"), TextOverlay),
    "why": (("W",), WhyOverlay),
    "copy": (("2", "f", "y"), YankOverlay),
    "consumers": (("2", "f", "less_than_sign", "greater_than_sign"), EdgeOverlay),
    "around": (("2", "f", "L"), NeighbourhoodOverlay),
    "export": (("5", "b", "B", "x"), ExportForm),
    "two runs": (("0", "space", "j", "space", "C"), ChangesOverlay),
    "another store": (("0", "O"), LineForm),
    "rename": (("0", "R"), LineForm),
    "delete": (("0", "D"), LineForm),
    "keep a query": (("2", "Q", "i", "ctrl+s"), LineForm),
    "log": (("2", "at"), LogOverlay),
}
ON_JOBS = {
    "start": (("8", "n"), ChooseCommandOverlay),
    "form": (("n",), JobFormWindow),
    "a job's log": (("8", "l"), TextOverlay),
}


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
    tried = {kind for _, kind in (*ON_A_RUN.values(), *ON_JOBS.values())}
    assert every_window() - tried - {Overlay} == {LeaveOverlay}, "pictures of leaving: job pictures"


async def looked_at(b: Browser, keys: tuple[str, ...], kind: type) -> None:
    """Open it, and look at it in a small and a large terminal."""
    await b.press(*keys)
    assert isinstance(b.app.screen, kind)
    for width, height in SIZES:
        await b.pilot.resize_terminal(width, height)
        await b.settle(b.pilot)
        window = b.app.screen.query_one(Window)
        box = window.region
        assert b.app.screen.region.contains_region(box), "nothing of it is outside"
        assert abs(box.x - (width - box.right)) <= 1
        assert abs(box.y - (height - box.bottom)) <= 1
        assert window.border_title
        assert "esc" in str(window.border_subtitle)
        for part in window.walk_children():
            if part.display and part.focusable:
                assert part.region.height > 0, "what can be typed into or walked through is seen"
    await b.press("escape")
    assert not isinstance(b.app.screen, ModalScreen)


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory) -> str:
    """The analysed run ``15``, and the run ``14`` of the same models."""
    url = str(tmp_path_factory.mktemp("windows") / "two")
    with open_store(url) as store:
        store.save_run(made_run())
        store.save_run(analysed_run())
    return url


@pytest.mark.parametrize("name", ON_A_RUN)
async def test_a_window_over_a_run(browse, two_runs, whole_store, name):
    url, run = (whole_store, "whole") if name == "export" else (two_runs, "15")
    async with browse(url, run) as b:
        await looked_at(b, *ON_A_RUN[name])


@pytest.mark.parametrize("name", ON_JOBS)
async def test_a_window_over_jobs(settle, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    jobs_of_the_past(tmp_path, store=tmp_path / ".divergraph")
    async with Browser(jobs_app(".divergraph", tmp_path), settle) as b:
        await looked_at(b, *ON_JOBS[name])
