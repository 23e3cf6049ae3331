"""Work that goes on in the background: told in every view, and asked about before leaving."""

import threading

import pytest
from browsing import SIZE, said, text_of
from whole_run import PartBrowser

from tui.part_chooser import PartChooser

pytestmark = pytest.mark.slow


@pytest.fixture
def browse(make_app, settle):
    """Starts the app on a store, presses keys, waits after each."""

    def start(url, start=None):
        return PartBrowser(make_app(url, start), settle, SIZE)

    return start


async def test_leaving_while_a_job_runs_takes_two_presses(browse, whole_store, monkeypatch):
    waiting, go_on = threading.Event(), threading.Event()

    def slow(chooser, part):
        waiting.set()
        assert go_on.wait(30)

    monkeypatch.setattr(PartChooser, "smallest", slow)
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["mul1"], ["join"])
        await b.pilot.press("i")
        await b.pilot.pause()
        assert waiting.wait(30)
        await b.pilot.press("x", "q")
        await b.pilot.pause()
        assert said(b.app).count("a cut is being searched") == 2
        assert b.app._exit is False
        go_on.set()
        await b.press("q")
        assert b.app._exit is True


async def test_a_running_job_is_told_in_every_view_and_each_asks_before_leaving(
    browse, whole_store, monkeypatch
):
    go_on = threading.Event()
    monkeypatch.setattr(PartChooser, "smallest", lambda chooser, part: go_on.wait(60) and None)
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["mul1"], ["join"])
        try:
            for view in ("5", "1", "2", "0"):
                await b.pilot.press(*(("i",) if view == "5" else (view,)))
                await b.pilot.pause(0.2)
                assert "searching where the fewest bytes go in" in text_of(b.app).split("\n")[0]
                b.app.leaving = ""
                await b.pilot.press("q")
                assert b.app._exit is False, view
        finally:
            go_on.set()
        await b.settle(b.pilot)
        assert "searching" not in text_of(b.app).split("\n")[0]
