"""Notes on ops and baselines of models, in the terminal."""

from __future__ import annotations

import shutil

import pytest
from browsing import op_under_cursor, text_of
from layered_run import analysed_run
from textual.widgets import Input

from divergraph.ask.memory.baselines import set_baseline
from graphstore.open_store import open_store
from tui.screens.windows.line_form import LineForm
from tui.widgets.row_list import RowList

pytestmark = pytest.mark.slow


@pytest.fixture
def store(made_store, tmp_path) -> str:
    """A store with the run 14 that may be written."""
    url = str(tmp_path / "store")
    shutil.copytree(made_store, url)
    return url


async def test_a_note_is_written_and_seen(browse, store, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_AUTHOR", "ada")
    async with browse(store) as b:
        await b.press("2", "f", "m", "escape")
        await b.press("m", "enter")
        assert b.app.session.asked(lambda opened: opened.notes()) == [], "without a text: no note"
        await b.press("m")
        assert isinstance(b.app.screen, LineForm)
        b.app.screen.query_one(Input).value = "known: [b]lost[/b] bias"
        await b.press("enter")
        assert "note      known: [b]lost[/b] bias (ada, " in text_of(b.app)
        op = op_under_cursor(b.app)
    with open_store(store) as opened:
        (note,) = opened.notes()
        (row,) = opened.ops("14", [op]).values()
        assert note.op in (row.original_names or (row.id,))


async def test_runs_show_how_they_stand(browse, store):
    with open_store(store) as opened:
        opened.save_run(analysed_run())
        set_baseline(opened, "14", "ada")
    async with browse(store) as b:
        await b.press("0")
        source = b.app.screen.query_one("#runs", RowList).source
        shown = {source.row(at)[1].text: source.row(at)[-1].text for at in range(len(source))}
        assert shown["14"] == "baseline"
        assert shown["15"] == "same"
        assert "baseline" in text_of(b.app)
