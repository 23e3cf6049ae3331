"""Pictures of jobs, of a form and of the first screen in their colours."""

from __future__ import annotations

import shutil
import time

import pytest
from jobs_on_screen import NOW, jobs_app, jobs_of_the_past, shelf_of

from divergraph.api.demo import demo_data
from divergraph.jobs.background.job_files import LOCK
from graphstore.file_lock import held_lock

pytestmark = pytest.mark.exhaustive  # their texts in each size: test_tui_pictures


@pytest.fixture
def picture(tmp_path, settle, snap_compare, monkeypatch):
    """Compares the app, started in a folder of its own, with its kept picture."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("tui.screens.jobs.present", lambda: NOW)
    monkeypatch.chdir(tmp_path)

    def compare(keys, theme="dark"):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            pilot.app.clear_notifications()
            await settle(pilot)

        app = jobs_app(".divergraph", tmp_path, theme=theme)
        return snap_compare(app, run_before=run_before, terminal_size=(120, 40))

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


def test_jobs(picture, past):
    assert picture(("8",))


@pytest.mark.parametrize("theme", ["light", "contrast"])
def test_jobs_in_other_colours(picture, past, theme):
    assert picture(("8", "j"), theme)


def test_what_can_be_started(picture):
    assert picture(("8", "n"))


def test_a_form(picture):
    assert picture(("n", "f5"))


def test_leaving(picture, past):
    assert picture(("8", "q"))


def test_the_first_screen(picture, tmp_path):
    shutil.copytree(demo_data().folder, tmp_path / "lenet")
    assert picture(())
