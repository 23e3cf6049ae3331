"""A job that runs: told in every view, and asked about before leaving."""

import pytest
from browsing import Browser, text_of
from jobs_on_screen import jobs_app, jobs_of_the_past, shelf_of

from divergraph.jobs.background.job_files import LOCK
from graphstore.file_lock import held_lock
from tui.screens.windows.leave import LeaveOverlay

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


async def test_every_view_tells_of_it_and_asks_before_leaving(settle, whole_store, tmp_path):
    jobs_of_the_past(tmp_path, store=whole_store)
    newest = max(shelf_of(tmp_path).root.iterdir())
    with held_lock(newest / LOCK):
        async with Browser(jobs_app(whole_store, tmp_path, start="whole"), settle) as b:
            for view in "123456780":
                await b.press(view)
                assert "compare: comparing" in text_of(b.app).split("\n")[0], view
                await b.press("ctrl+c" if view == "7" else "q")  # there, letters are text
                assert isinstance(b.app.screen, LeaveOverlay), view
                await b.press("escape", *(["escape"] if view == "7" else []))
