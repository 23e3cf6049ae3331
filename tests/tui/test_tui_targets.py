"""Which run or graph is opened, and what is said where none can be; small screens."""

import dataclasses

import pytest
from browsing import SIZE, op_under_cursor, said, shown_ops, text_of
from layered_run import made_run
from textual.widgets import Static

from graphstore.open_store import open_store
from tui.screens.ops import OpsScreen
from tui.screens.runs import RunsScreen
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def settled(settle):
    async def wait(pilot):
        await settle(pilot)
        await settle(pilot)

    return wait


async def test_several_runs_are_offered_newest_first(make_app, several_store, settled):
    app = make_app(several_store)
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, RunsScreen)
        listed = app.screen.query_one(RowList)
        names = [listed.source.row(n)[1].text for n in range(3)]
        assert names == ["clean", "14", "bert [v2]"]
        await pilot.press("j", "enter")
        await settled(pilot)
        assert "DIVERGED" in text_of(app)
        await pilot.press("0", "k", "enter")
        await settled(pilot)
        assert "No origin; the largest deviations" in text_of(app)
        await pilot.press("f")
        await settled(pilot)
        assert "the run has no origin" in said(app)


async def test_an_imported_graph_opens_as_ops_without_results(make_app, several_store, settled):
    app = make_app(several_store, "bert [v2]")
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, OpsScreen)
        assert shown_ops(app)[0] == "model/layer_0/MatMul"
        assert "graph bert [v2]" in text_of(app)
        await pilot.press("1")
        await settled(pilot)
        assert "an imported graph has no results" in said(app)
        assert isinstance(app.screen, OpsScreen)


async def test_an_address_is_restored(make_app, several_store, settled):
    start = "run/14/op/model%2Flayer_3%2FAdd?view=ops&where=type%3AAdd&sort=topo"
    app = make_app(several_store, start)
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert op_under_cursor(app) == "model/layer_3/Add"
        assert shown_ops(app) == [f"model/layer_{n}/Add" for n in range(6)]


async def test_an_empty_store_says_how_to_make_a_run(make_app, tmp_path, settled):
    url = str(tmp_path / "empty")
    with open_store(url):
        pass
    app = make_app(url)
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert "Nothing is stored here yet" in text_of(app)
        await pilot.press("2")
        await settled(pilot)
        assert "nothing is open yet" in said(app)


async def test_an_unknown_run_is_a_readable_screen(make_app, several_store, settled):
    app = make_app(several_store, "15")
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert "no run named '15'" in str(app.screen.query_one("#problem", Static).content)
        await pilot.press("0")
        await settled(pilot)
        assert app.screen.query_one(RowList).source.row(0)[1].text == "clean"


async def test_a_store_that_cannot_be_opened_is_a_readable_screen(make_app, tmp_path, settled):
    path = tmp_path / "file"
    path.write_text("no store")
    app = make_app(str(path))
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert app.screen.has_class("-failed")
        assert str(path) in text_of(app)


async def test_what_nobody_foresaw_is_readable_too(make_app, made_store, settled, tmp_path):
    app = make_app(made_store)

    def surprise():
        raise ValueError("odd [bold]value[/bold]\nsecond line")

    app.session.overview = surprise
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        shown = text_of(app)
        assert "unexpected trouble: ValueError: odd [bold]value[/bold]" in shown
        assert "trouble.txt" in shown
        await pilot.press("0")
        await settled(pilot)
        assert isinstance(app.screen, RunsScreen)
    assert "surprise" in (tmp_path / "state" / "trouble.txt").read_text()


async def test_an_export_that_fails_leaves_the_list(make_app, made_store, settled, tmp_path):
    (tmp_path / "file").write_text("")
    app = make_app(made_store)
    app.settings = dataclasses.replace(app.settings, export_dir=tmp_path / "file")
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await pilot.press("2")
        await settled(pilot)
        await pilot.press("x")
        await settled(pilot)
        assert "cannot be written" in said(app)
        assert len(shown_ops(app)) == 36


async def test_a_long_text_scrolls_by_the_keys_of_lists(make_app, made_store, settled):
    app = make_app(made_store)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("question_mark")
        await settled(pilot)
        pane = app.screen.query_one(TextPane)
        for key, moved in (("G", True), ("g", False), ("ctrl+d", True), ("ctrl+u", False)):
            await pilot.press(key)
            await settled(pilot)
            assert bool(pane.scroll_offset.y) is moved, key


@pytest.mark.parametrize("width", [40, 60, 80, 120])
async def test_the_line_of_states_fits_every_width(make_app, made_store, settled, width):
    app = make_app(made_store)
    async with app.run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        line = app.screen.query_one("#status", Static)
        assert line.content.cell_length <= width
        assert " 16" in line.content.plain, "how many inherit is never cut off"


async def test_the_origin_is_in_sight_on_a_small_screen(make_app, made_store, settle):
    app = make_app(made_store, "14")
    async with app.run_test(size=(60, 18)) as pilot:
        await settle(pilot)
        assert "1 ◆ " in text_of(app)


async def test_a_store_that_goes_away_leaves_on_screen_what_is_known(make_app, tmp_path, settled):
    url = tmp_path / "store"
    with open_store(str(url)) as store:
        store.save_run(made_run())
    app = make_app(str(url))
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await pilot.press("2")
        await settled(pilot)
        known = shown_ops(app)
        app.session.reopen()
        url.rename(tmp_path / "away")
        url.write_text("something else")
        await pilot.press("j", "j")
        await settled(pilot)
        assert shown_ops(app) == known
        assert "R tries again" in text_of(app)
        assert known[0] in text_of(app)
        url.unlink()
        (tmp_path / "away").rename(url)
        await pilot.press("R")
        await settled(pilot)
        assert "R tries again" not in text_of(app)
        assert shown_ops(app) == known


async def test_another_store_is_opened_in_place_of_this_one(browse, several_store, analysed_store):
    async with browse(several_store) as b:
        await b.press("O", *"/no/such/store", "enter")
        assert "/no/such/store" in said(b.app)
        assert isinstance(b.app.screen, RunsScreen)
        await b.press("O", *analysed_store, "enter")
    assert b.app.next_store == analysed_store
