"""The view of an error's path, and what the views say of a run whose errors were split."""

import csv
from dataclasses import replace

import pytest
from browsing import said, text_of
from jobs_on_screen import past_job, until
from layered_run import analysed_run

from graphstore.model import OutputShares
from graphstore.open_store import open_store
from tui.screens.ops import OpsScreen
from tui.screens.overview import OverviewScreen
from tui.screens.propagation import PropagationScreen
from tui.screens.submodel import SubmodelScreen
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.overlays import TextOverlay, YankOverlay
from tui.style.glyphs import UNICODE
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

pytestmark = pytest.mark.thorough

FIRST = "model/layer_2/Softmax"
SECOND = "model/layer_4/LayerNorm"


def path(app):
    """The ops shown, None for a fold."""
    rows = app.screen.query_one("#path", RowList).source
    return [None if rows.folded(at) else rows.op(at) for at in range(len(rows))]


async def test_the_overview_says_who_is_guilty_and_why(browse, analysed_store):
    async with browse(analysed_store) as b:
        shown = text_of(b.app)
        assert "introduces 900x the error its fp16" in shown
        assert "bias missing in channels 8-15" in shown
        assert "2 origins, 1 suspect, 16 in" in shown
        assert "1 ? model/layer_1/Add" in shown


async def test_the_overview_tells_of_the_origin_under_the_cursor(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("j")
        shown = text_of(b.app)
        assert "introduces 900x" not in shown
        assert "one of the 3 ops that end in model/layer_4/LayerNorm" in shown


async def test_a_cause_is_told_once(browse, analysed_store):
    async with browse(analysed_store, f"run/15/op/{FIRST.replace('/', '%2F')}") as b:
        facts = b.app.screen.query_one("#facts", TextPane)
        shown = facts._build(100).plain
        assert shown.count("bias missing in channels 8-15") == 1
        assert "introduces 900x the error" in shown


@pytest.mark.slow
async def test_the_suspect_can_be_opened_and_its_row_says_how_sure(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("j", "j", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert b.app.screen.address().op == "model/layer_1/Add"
        assert f"{UNICODE.times}7.0 its floor" in text_of(b.app)


@pytest.mark.slow
async def test_ops_sorted_by_suspicion(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("2")
        rows = b.app.screen.query_one("#ops", RowList)
        rows.column = [column.id for column in rows.source.columns].index("susp")
        await b.press("s", "g")
        assert "most suspicious first" in text_of(b.app)
        assert [row.id for row in rows.source.shown][:3] == [FIRST, SECOND, "model/layer_1/Add"]


@pytest.mark.slow
async def test_the_detail_names_cause_group_and_numbers(browse, analysed_store):
    async with browse(analysed_store, f"run/15/op/{SECOND.replace('/', '%2F')}") as b:
        await b.press("enter")
        shown = text_of(b.app)
        assert "introduced 0.19, propagated 0, floor 0.0003" in shown
        assert "1 of these 3 ops: mean, norm, model/layer_4/LayerNorm" in shown


@pytest.mark.slow
async def test_the_way_starts_at_the_first_origin_and_folds_what_only_carries(
    browse, analysed_store
):
    async with browse(analysed_store) as b:
        await b.press("4")
        assert isinstance(b.app.screen, PropagationScreen)
        assert b.app.screen.address().op == FIRST
        folded = path(b.app)
        assert (folded[0], folded[-1]) == (FIRST, "model/layer_5/LayerNorm")
        assert None in folded
        assert "starts here" in text_of(b.app)
        assert "adds an error of its own" in text_of(b.app)
        at = folded.index(None)
        await b.press(*["j"] * at, "enter")
        assert None not in path(b.app)
        await b.press("u")
        assert path(b.app) == folded or None in path(b.app)


@pytest.mark.slow
async def test_enter_opens_the_op_and_back_returns_to_the_way(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("4", "j", "enter")
        assert b.app.screen.address().op == "model/layer_2/Cast"
        await b.press("left_square_bracket")
        assert isinstance(b.app.screen, PropagationScreen)
        assert b.app.screen.address().op == FIRST


@pytest.mark.slow
async def test_the_error_of_any_op_can_be_followed(browse, analysed_store):
    async with browse(analysed_store, f"run/15/op/{SECOND.replace('/', '%2F')}") as b:
        await b.press("p")
        assert isinstance(b.app.screen, PropagationScreen)
        assert path(b.app)[0] == SECOND
        assert "every path" in text_of(b.app).lower()
        await b.press("n")
        assert "there is one path only" in said(b.app)
        await b.press("y")
        assert isinstance(b.app.screen, YankOverlay)


async def test_a_link_leads_to_the_way(browse, analysed_store):
    address = f"run/15/op/{SECOND.replace('/', '%2F')}?view=propagation"
    async with browse(analysed_store, address) as b:
        assert str(b.app.screen.address()) == address


async def test_a_run_by_thresholds_has_its_ways_too(browse, made_store):
    async with browse(made_store) as b:
        await b.press("4")
        assert path(b.app)[0] == FIRST
        assert "divergraph trace 14 " + FIRST in b.app.session.commands[-1]


async def test_without_origin_the_view_says_what_to_do(browse, several_store):
    async with browse(several_store, "clean") as b:
        assert isinstance(b.app.screen, OverviewScreen)
        await b.press("4")
        assert "the run has no origin" in said(b.app)


@pytest.mark.slow
async def test_exported_rows_have_the_split(browse, analysed_store, tmp_path):
    async with browse(analysed_store) as b:
        await b.press("2", "x")
        with (tmp_path / "15-ops.csv").open(encoding="utf-8", newline="") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        assert rows[FIRST]["role"] == "introduces"
        assert float(rows[FIRST]["suspicion"]) == pytest.approx(900)
        assert rows["model/layer_2/Cast"]["role"] == ""


@pytest.mark.slow
async def test_the_shell_command_shows_the_same_way(browse, analysed_store):
    from divergraph.ask.traces import trace

    async with browse(analysed_store) as b:
        await b.press("4", "u")
        with open_store(analysed_store) as store:
            (found,) = trace(store, "15").paths
        assert path(b.app) == [step.row.id for step in found.steps]


async def test_a_cut_of_the_path_becomes_a_boundary_of_a_part(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("4", "b")
        cuts = b.app.screen.query_one("#cuts", RowList)
        while not cuts.has_focus:
            await b.press("tab")
        await b.press("G")
        last = cuts.source.path.cuts[-1]
        assert b.app.screen.current_op() == last.op
        await b.press("B")
        marked = [cuts.source.row(at)[0].text for at in range(len(cuts.source))]
        assert (marked[-1], set(marked[:-1])) == ("E", {""})
        steps = b.app.screen.query_one("#path", RowList)
        assert steps.source.row(0)[0].text == "S"
        await b.press("5")
        assert isinstance(b.app.screen, SubmodelScreen)
        address = b.app.screen.address()
        assert (address.starts, address.ends) == ((FIRST,), (last.op,))
        await b.press("u", "left_square_bracket")
        assert isinstance(b.app.screen, PropagationScreen)
        assert cuts.source.row(len(cuts.source) - 1)[0].text == ""
        await b.press("enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert b.app.screen.address().op == last.op


async def test_the_cut_that_halves_the_path_is_chosen_first(browse, analysed_store):
    async with browse(analysed_store) as b:
        await b.press("4")
        cuts = b.app.screen.query_one("#cuts", RowList)
        assert cuts.source.op(cuts.cursor) == cuts.source.path.middle.op
        assert cuts.source.row(cuts.cursor)[1].text == UNICODE.marked


@pytest.mark.parametrize("key", ["K", "X"])
async def test_blame_is_asked_with_a_form(browse, analysed_store, key):
    async with browse(analysed_store) as b:
        await b.press("4", key)
        assert isinstance(b.app.screen, JobFormWindow)
        exact = f" --exact {FIRST}" if key == "X" else ""
        assert b.app.screen.texts()["run"] == "15"
        assert f"divergraph blame 15{exact}" in text_of(b.app)
        await b.press("escape")
        assert isinstance(b.app.screen, PropagationScreen)


async def test_what_blame_said_last_is_read_where_it_was_asked(browse, analysed_store, tmp_path):
    async with browse(analysed_store) as b:
        await b.press("4", "a")
        assert "blame was not asked about this run" in said(b.app)
        words = ["blame", "15", "--exact", FIRST]
        past_job(tmp_path, 0, ["blame", "14"], [], 0)
        past_job(tmp_path, 1, words, [], 0)
        b.app.look_at_jobs()
        await until(b, lambda: len(b.app.looks) == 2)
        await b.press("a")
        assert isinstance(b.app.screen, TextOverlay)
        assert "what it printed" in text_of(b.app)
        assert f"blame 15 --exact {FIRST}" in text_of(b.app)
        await b.press("escape")
        assert isinstance(b.app.screen, PropagationScreen)


async def test_the_path_shows_shares_of_the_error_once_blame_was_asked(browse, tmp_path):
    data = analysed_run()
    shares = OutputShares({FIRST: 0.75, SECOND: -0.125}, 0.1)
    analysis = replace(data.run.analysis, blame=shares)
    url = str(tmp_path / "store")
    with open_store(url) as store:
        store.save_run(data)
    async with browse(url) as b:
        await b.press("4", "u")
        rows = b.app.screen.query_one("#path", RowList)
        assert "share" not in [column.id for column in rows.source.columns]
        with open_store(url) as store:  # as a job does, in its own process
            store.save_run(replace(data, run=replace(data.run, analysis=analysis)), replace=True)
        b.app._forget_old({"15"}, other_ops=False)
        await b.press("u")
        place = [column.id for column in rows.source.columns].index("share")
        shown = {
            rows.source.op(at): rows.source.row(at)[place].text for at in range(len(rows.source))
        }
        assert (shown[FIRST], shown["model/layer_5/LayerNorm"]) == ("75%", UNICODE.dash)
        await b.press("f1")
        assert "part of the error at the outputs" in text_of(b.app)
