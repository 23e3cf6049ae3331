"""Pictures of jobs, of a form and of the first screen, in each size and with both sets of marks."""

from __future__ import annotations

import shutil
import time

import pytest
from jobs_on_screen import NOW, jobs_app, jobs_of_the_past, shelf_of

from divergraph.api.demo import demo_data
from divergraph.jobs.background.job_files import LOCK
from graphstore.file_lock import held_lock

pytestmark = pytest.mark.slow

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]
SHOWN = [(size, "unicode") for size in SIZES] + [((80, 24), "ascii"), ((120, 40), "ascii")]


@pytest.fixture(params=SHOWN, ids=lambda shown: f"{shown[0][0]}x{shown[0][1]}-{shown[1]}")
def shown(request):
    return request.param


@pytest.fixture
def picture(tmp_path, settle, snap_compare, monkeypatch):
    """Compares the app, started in a folder of its own, with its kept picture."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("tui.screens.jobs.present", lambda: NOW)
    monkeypatch.chdir(tmp_path)

    def compare(keys, shown, theme="dark"):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            pilot.app.clear_notifications()
            await settle(pilot)

        size, glyphs = shown
        app = jobs_app(".divergraph", tmp_path, glyphs, theme)
        return snap_compare(app, run_before=run_before, terminal_size=size)

    yield compare
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def past(tmp_path):
    """Jobs of the past, and one that runs."""
    jobs_of_the_past(tmp_path, store=tmp_path / ".divergraph")
    newest = max(shelf_of(tmp_path).root.iterdir())
    with held_lock(newest / LOCK):
        yield


def test_jobs(picture, past, shown):
    assert picture(("8",), shown)


@pytest.mark.parametrize("theme", ["light", "contrast"])
def test_jobs_in_other_colours(picture, past, theme):
    assert picture(("8", "j"), SHOWN[2], theme)


def test_what_can_be_started(picture):
    assert picture(("8", "n"), SHOWN[2])


def test_a_form(picture, shown):
    assert picture(("n", "f5"), shown)


def test_leaving(picture, past):
    assert picture(("8", "q"), SHOWN[2])


def test_the_first_screen(picture, tmp_path, shown):
    shutil.copytree(demo_data().folder, tmp_path / "lenet")
    assert picture((), shown)
