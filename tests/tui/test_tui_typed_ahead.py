"""Keys typed right behind one that opens a field or a window belong to what it opens."""

from __future__ import annotations

import pytest
from browsing import Browser
from textual.events import Key
from textual.widgets import Input

from tui.screens.ops import OpsScreen
from tui.screens.windows.overlays import TextOverlay
from tui.widgets.filter_bar import FilterBar


async def type_at_once(browser: Browser, *keys: str) -> None:
    """All *keys* are there before the first is looked at, as after a paste or on a slow line."""
    for key in keys:
        browser.app.post_message(Key(key, key if len(key) == 1 else None))
    await browser.pilot.pause()


@pytest.fixture
def browse(browse, made_store):
    """Browses the run ``14``."""
    return browse(made_store)


FILTER = "type:Soft*"


@pytest.mark.parametrize("view", ["1", "2"])
async def test_a_filter_typed_in_one_burst(browse, view: str):
    async with browse as b:
        await b.press(view)
        await type_at_once(b, "slash", *FILTER)
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, OpsScreen)
        assert b.app.screen.query_one(FilterBar).text == FILTER


async def test_a_q_in_a_burst_does_not_leave(browse):
    async with browse as b:
        await type_at_once(b, "slash", *"quant")
        await b.settle(b.pilot)
        assert b.app.is_running
        assert b.app.screen.query_one(FilterBar).text == "quant"


async def test_a_window_gets_the_keys_behind_the_one_that_opens_it(browse):
    async with browse as b:
        await type_at_once(b, "question_mark", "q")
        await b.settle(b.pilot)
        assert b.app.is_running, "q closes the page of keys"
        assert not isinstance(b.app.screen, TextOverlay)
        await type_at_once(b, "colon", *"query")
        await b.settle(b.pilot)
        assert b.app.screen.query_one(Input).value == "query"
