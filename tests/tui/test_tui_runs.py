"""The list of runs: order, filter, names, deleting, and two runs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browsing import op_under_cursor, said, text_of
from layered_run import analysed_run, made_run

from divergraph.ask.memory.baselines import set_baseline
from graphstore.model import Guilt
from graphstore.open_store import open_store
from tui.screens.ops import OpsScreen
from tui.screens.runs import RunsScreen
from tui.screens.windows.changes import ChangesOverlay
from tui.widgets.row_list import RowList

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def store(tmp_path) -> str:
    """Two analysed runs of one model, the newer one without the guilty op, and a graph."""
    url = str(tmp_path / "store")
    old = analysed_run()
    mended = tuple(
        replace(item, split=replace(item.split, guilt=Guilt.NONE, introduced=1e-7, suspicion=0.5))
        if item.split is not None and item.split.guilt is Guilt.GUILTY
        else item
        for item in old.comparisons
    )
    new = replace(
        old,
        run=replace(old.run, name="16", created="2026-03-01T09:00:00Z"),
        comparisons=mended,
    )
    with open_store(url) as opened:
        opened.save_run(old)
        opened.save_run(new)
        opened.save_graph(made_run().device, "bert")
    return url


def names(app) -> list[str]:
    source = app.screen.query_one("#runs", RowList).source
    return [source.row(n)[1].text for n in range(len(source))]


async def choose(b, *keys: str) -> None:
    await b.press("0", *keys)


async def test_runs_are_sorted_by_a_column_and_back(browse, store):
    async with browse(store) as b:
        assert names(b.app) == ["16", "15", "bert"]
        await choose(b, "right", "s")
        assert names(b.app) == ["15", "16", "bert"]
        await b.press("S")
        assert names(b.app) == ["bert", "16", "15"]
        await b.press("right", "right", "right", "s", "S")
        assert names(b.app)[2] == "bert", "what has no figure stands last in either order"


async def test_a_filter_leaves_out_what_does_not_fit_until_esc(browse, store):
    async with browse(store) as b:
        await choose(b, "slash", *"GRAPH", "enter")
        assert names(b.app) == ["bert"]
        assert "2 left out" in text_of(b.app)
        await b.press("escape")
        assert names(b.app) == ["16", "15", "bert"]


async def test_a_run_gets_another_name_and_a_name_in_use_is_refused(browse, store):
    async with browse(store) as b:
        await choose(b, "R", "end", "b", "enter")
        assert names(b.app) == ["16b", "15", "bert"]
        await b.press("R", *"15", "enter")
        assert "15" in said(b.app)
        assert names(b.app) == ["16b", "15", "bert"]
    with open_store(store) as opened:
        assert {run.name for run in opened.runs()} == {"15", "16b"}


async def test_deleting_asks_and_forgets_what_was_kept_of_the_run(browse, store):
    async with browse(store, "16") as b:
        await b.press("2")
        await choose(b, "D", "n", "o", "enter")
        assert "16 is kept" in said(b.app)
        await b.press("D", "y", "e", "s", "enter")
        assert names(b.app) == ["15", "bert"]
        await b.press("2")
        assert isinstance(b.app.screen, RunsScreen), "there is nothing to go back to"
    with open_store(store) as opened:
        assert [run.name for run in opened.runs()] == ["15"]


async def test_two_marked_runs_are_compared_and_an_op_opened_in_the_newer(browse, store):
    async with browse(store) as b:
        await choose(b, "C")
        assert "space marks two runs first" in said(b.app)
        await b.press("space", "j", "space", "C")
        assert isinstance(b.app.screen, ChangesOverlay)
        text = text_of(b.app)
        assert "15 → 16" in text
        assert "fixed" in text
        source = b.app.screen.query_one(RowList).source
        op = source.row(0)[1].text
        await b.press("enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert b.app.session.target == "16"
        assert op_under_cursor(b.app) == op
        await b.press("left_square_bracket")
        assert b.app.session.commands, "the same is told as a shell command"
    assert any("compare-runs 15 16" in line for line in b.app.session.commands)


async def test_an_imported_graph_is_not_marked(browse, store):
    async with browse(store) as b:
        await choose(b, "G", "space")
        assert "an imported graph has no results" in said(b.app)


async def test_deleting_a_baseline_says_what_goes_with_it(browse, store):
    with open_store(store) as opened:
        set_baseline(opened, "15", "ada")
    said_first = "the baseline of its model"
    async with browse(store) as b:
        await b.press("D")
        assert said_first not in text_of(b.app)
        await b.press("escape", "j", "D")
        assert said_first in text_of(b.app)
        await b.press("y", "e", "s", "enter")
        assert names(b.app) == ["16", "bert"]
