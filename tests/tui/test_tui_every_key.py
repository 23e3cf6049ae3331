"""Every key of every view, while it is loading, empty, in trouble and full: the program goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browsing import text_of

from graphstore.open_store import open_store
from tui.keys import TABLE
from tui.screens.base import VIEWS

pytestmark = pytest.mark.thorough

KEYS = sorted({key for each in TABLE for key in each.keys.split(",")} - {"q", "ctrl+c"})
"""All but those that leave, which is no accident."""
NAMES = ["runs", *(name for name, _ in VIEWS)]


async def all_keys(browser, view: str) -> None:
    """Press every key, each from the view as it was opened."""
    for key in KEYS:
        await browser.pilot.press(key)
        await browser.pilot.pause()
        assert browser.app.is_running, f"{key} ended the program"
        assert browser.app._exception is None, f"{key}: {browser.app._exception!r}"
        while len(browser.app.screen_stack) > 2:  # windows over the view
            browser.app.pop_screen()
            await browser.pilot.pause()
        number = "0" if view == "runs" else str(NAMES.index(view))
        await browser.pilot.press("escape", number)
        await browser.pilot.pause()


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", NAMES)
async def test_a_full_view(browse, whole_store_to_change, view):
    async with browse(whole_store_to_change) as browser:
        await browser.press("0" if view == "runs" else str(NAMES.index(view)))
        await all_keys(browser, view)
        await browser.settle(browser.pilot)
        assert text_of(browser.app).strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "view", [pytest.param("propagation", marks=pytest.mark.exhaustive), "tensor"]
)
async def test_an_op_without_values(browse, made_store, view):
    async with browse(made_store) as browser:
        await browser.press("2", "G", str(NAMES.index(view)))
        await all_keys(browser, view)


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", ["runs", "query", "jobs"])
async def test_an_empty_store(browse, tmp_path, view):
    url = str(tmp_path / "empty")
    with open_store(url) as store:
        store.check_writable()
    async with browse(url) as browser:
        await all_keys(browser, view)


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", NAMES)
async def test_a_store_that_is_gone(browse, made_store, tmp_path, view):
    gone = Path(shutil.copytree(made_store, tmp_path / "gone"))
    async with browse(str(gone)) as browser:
        shutil.rmtree(gone)
        await browser.pilot.press("0" if view == "runs" else str(NAMES.index(view)))
        await all_keys(browser, view)


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", NAMES)
async def test_keys_pressed_before_anything_is_loaded(make_app, made_store, view):
    app = make_app(made_store)
    number = "0" if view == "runs" else str(NAMES.index(view))
    async with app.run_test(size=(120, 40)) as pilot:
        for key in KEYS:
            await pilot.press(number, key)  # nothing waits for an answer
            assert app._exception is None, f"{key}: {app._exception!r}"
            while len(app.screen_stack) > 2:
                app.pop_screen()
                await pilot.pause()
