"""Overview, list of ops and list of runs, driven by keys on a real store."""

import csv
import dataclasses

import pytest
from textual.widgets import Static

from divergraph.questions import open_store
from tui.address import parse_address
from tui.overlays import LogOverlay, TextOverlay, YankOverlay
from tui.views.ops import OpsScreen
from tui.views.overview import OverviewScreen
from tui.views.runs import RunsScreen
from tui.widgets.curve import Curve
from tui.widgets.filter_bar import FilterBar, FilterInput
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

SIZE = (120, 40)


def text_of(app):
    """Everything on screen as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def said(app):
    """The messages shown as toasts."""
    return " | ".join(notification.message for notification in app._notifications)


def table(app):
    return app.screen.query_one("#ops", RowList)


def op_under_cursor(app):
    return app.screen.address().op


def shown_ops(app):
    return [row.id for row in table(app).source.shown()]


@pytest.fixture
def browse(make_app, made_store, settle):
    """Starts the app on the run ``14``, presses keys, waits after each."""

    class Browser:
        def __init__(self):
            self.app = make_app(made_store)

        async def __aenter__(self):
            self._test = self.app.run_test(size=SIZE)
            self.pilot = await self._test.__aenter__()
            await settle(self.pilot)
            await settle(self.pilot)
            return self

        async def __aexit__(self, *failure):
            return await self._test.__aexit__(*failure)

        async def press(self, *keys):
            for key in keys:
                await self.pilot.press(key)
                await settle(self.pilot)

        async def filter(self, text):
            await self.press("slash")
            self.app.screen.query_one(FilterInput).value = text
            await settle(self.pilot)

    return Browser()


async def test_the_only_run_opens_in_the_overview(browse):
    async with browse as b:
        assert isinstance(b.app.screen, OverviewScreen)
        shown = text_of(b.app)
        assert "DIVERGES  first at ◆ model/layer_2/Softmax  topo 13/36" in shown
        assert "2 origins, 16 inherit" in shown
        assert "30 tensors of 36  19 over the limit" in shown
        assert "inserted by the compiler" in shown


async def test_an_origin_opens_in_the_list_of_ops(browse):
    async with browse as b:
        await b.press("j", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"


async def test_a_module_opens_the_ops_of_its_name_space(browse):
    async with browse as b:
        b.app.screen.query_one("#modules").focus()
        await b.press("enter")
        assert len(shown_ops(b.app)) == 6
        assert all(op.startswith("model/layer_2/") for op in shown_ops(b.app))


async def test_a_reason_opens_the_ops_not_compared_for_it(browse):
    async with browse as b:
        b.app.screen.query_one("#reasons").focus()
        await b.press("enter")
        assert shown_ops(b.app) == [f"model/layer_{n}/Cast" for n in range(6)]


async def test_the_curve_opens_the_op_under_its_marker(browse):
    async with browse as b:
        b.app.screen.query_one(Curve).focus()
        await b.press("enter")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"


async def test_ops_start_with_the_worst_and_uncompared_ones_come_last(browse):
    async with browse as b:
        await b.press("2")
        ops = shown_ops(b.app)
        assert ops[:2] == ["model/layer_5/BatchMatMul", "model/layer_2/Softmax"]
        assert [op.rpartition("/")[2] for op in ops[-6:]] == ["Cast"] * 6


async def test_the_detail_panes_follow_the_cursor(browse):
    async with browse as b:
        await b.press("2")
        facts = text_of(b.app)
        assert "◆ origin" in facts
        assert "listed by the device graph" in facts
        assert "relative Euclidean distance         0.27" in facts
        assert "axes=[-1]" in facts
        assert "98 304 elements" in facts


async def test_enter_opens_everything_about_an_op_and_escape_closes_it(browse):
    async with browse as b:
        await b.press("2", "enter")
        assert isinstance(b.app.screen, TextOverlay)
        assert "golden/op.npy" in text_of(b.app)
        await b.press("escape")
        assert isinstance(b.app.screen, OpsScreen)


async def test_a_typed_filter_is_live_and_escape_clears_it(browse):
    async with browse as b:
        await b.press("2", "slash", *"origin")
        assert shown_ops(b.app) == []
        await b.press("escape")
        assert len(shown_ops(b.app)) == 36
        await b.filter("state:origin")
        assert shown_ops(b.app) == ["model/layer_2/Softmax", "model/layer_4/LayerNorm"]
        assert "2 shown, 34 filtered out" in text_of(b.app)
        await b.press("enter", "j")
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"
        await b.press("escape")
        assert len(shown_ops(b.app)) == 36
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"


async def test_a_wrong_filter_keeps_the_rows_and_marks_the_wrong_part(browse):
    async with browse as b:
        await b.press("2")
        await b.filter("state:origin")
        await b.filter("state:origin coz<0.9")
        assert len(shown_ops(b.app)) == 2
        bar = b.app.screen.query_one(FilterBar)
        assert (bar.wrong_span, "no field 'coz'" in text_of(b.app)) == ((13, 16), True)
        await b.filter("cos<0.97")
        assert bar.wrong_span is None
        assert len(shown_ops(b.app)) == 1


async def test_n_goes_on_to_rows_that_fit_the_last_filter(browse):
    async with browse as b:
        await b.press("2", "n")
        assert "no filter was typed yet" in said(b.app)
        await b.filter("state:origin")
        await b.press("enter", "escape", "g", "n")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"
        await b.press("n")
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"
        await b.press("n")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"
        await b.press("N")
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"


async def test_f_and_e_visit_the_origins_in_execution_order(browse):
    async with browse as b:
        seen = []
        for key in ("f", "e", "e", "E", "E"):
            await b.press(key)
            seen.append(op_under_cursor(b.app))
        first, second = "model/layer_2/Softmax", "model/layer_4/LayerNorm"
        assert seen == [first, second, second, first, first]
        assert "no origin before this op" in said(b.app)


async def test_an_origin_that_is_filtered_out_is_said_to_be(browse):
    async with browse as b:
        await b.press("2")
        await b.filter("type:Add")
        await b.press("enter", "f")
        assert "model/layer_2/Softmax is filtered out; esc clears" in said(b.app)


async def test_s_sorts_by_the_chosen_column_and_capital_s_turns_it_around(browse):
    async with browse as b:
        await b.press("2")
        listed = table(b.app)
        while listed.source.columns[listed.column].id != "topo":
            await b.press("left")
        await b.press("s")
        assert shown_ops(b.app)[0] == "model/layer_0/MatMul"
        await b.press("S")
        assert shown_ops(b.app)[0] == "model/layer_5/LayerNorm"
        assert "by topo, reversed" in text_of(b.app)


async def test_a_click_on_a_heading_sorts(browse, settle):
    async with browse as b:
        await b.press("2")
        await b.pilot.click("#ops", offset=(5, 1))
        await settle(b.pilot)
        assert shown_ops(b.app)[0] == "model/layer_0/MatMul"


async def test_back_and_forward_go_through_the_places_visited(browse):
    async with browse as b:
        await b.press("f", "e")
        await b.filter("type:LayerNorm")
        await b.press("enter", "1", "left_square_bracket")
        assert len(shown_ops(b.app)) == 6
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm"
        await b.press("left_square_bracket")
        assert (len(shown_ops(b.app)), op_under_cursor(b.app)) == (36, "model/layer_2/Softmax")
        await b.press("left_square_bracket", "left_square_bracket")
        assert isinstance(b.app.screen, OverviewScreen)
        assert "this is the first place" in said(b.app)
        await b.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        assert isinstance(b.app.screen, OverviewScreen)


async def test_y_copies_name_row_and_address(browse, tmp_path):
    async with browse as b:
        await b.press("2")
        copied = {}
        for key in ("n", "r", "l", "c"):
            await b.press("y")
            assert isinstance(b.app.screen, YankOverlay)
            await b.press(key)
            copied[key] = b.app.clipboard
            kept = (tmp_path / "state" / "copied.txt").read_text(encoding="utf-8")
            assert kept == copied[key] + "\n"
        assert copied["n"] == "model/layer_2/Softmax"
        assert copied["r"].split("\t")[1:4] == ["13", "model/layer_2/Softmax", "Softmax"]
        assert parse_address(copied["l"]).op == "model/layer_2/Softmax"
        assert copied["c"] == "divergraph ops 14 --store .divergraph"


async def test_space_marks_rows_and_x_writes_them(browse, tmp_path):
    async with browse as b:
        await b.press("2", "g", "x")
        await b.press("space", "space", "space", "space", "k", "space", "x")
        assert "3 marked" in table(b.app).border_subtitle
        with (tmp_path / "14-ops.csv").open(encoding="utf-8", newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == shown_ops(b.app)
        with (tmp_path / "14-ops-2.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["state"] for row in rows] == ["broken", "origin", "inherited"]
        assert float(rows[1]["relative_euclidean_distance"]) == 0.27
        assert "3 rows written to" in said(b.app)


async def test_z_lets_one_pane_fill_the_screen(browse):
    async with browse as b:
        await b.press("2", "tab", "z")
        assert b.app.screen.maximized is b.app.screen.query_one("#facts", TextPane)
        await b.press("z")
        assert b.app.screen.maximized is None
        await b.press("z", "escape")
        assert b.app.screen.maximized is None


async def test_w_shows_all_columns_in_full(browse):
    async with browse as b:
        await b.press("2", "w")
        assert table(b.app).virtual_size.width > 118
        await b.press("w")
        assert table(b.app).virtual_size.width <= 118


async def test_help_lists_the_keys_of_the_view_and_says_what_does_not_apply(browse):
    async with browse as b:
        await b.press("2", "question_mark")
        shown = text_of(b.app)
        assert "In the list of ops" in shown
        assert "not now: no filter was typed yet" in shown
        await b.press("escape")
        assert isinstance(b.app.screen, OpsScreen)


async def test_the_log_gives_commands_that_show_the_same(browse):
    async with browse as b:
        await b.press("2")
        await b.filter("state:origin")
        await b.press("enter", "at")
        assert isinstance(b.app.screen, LogOverlay)
        await b.press("enter")
        assert b.app.clipboard == "divergraph ops 14 --where state:origin --store .divergraph"


async def test_the_palette_finds_ops_by_name(browse, settle):
    async with browse as b:
        await b.press("2", "colon")
        await b.press(*"layer_3", "space", *"batch")
        for _ in range(50):
            await b.pilot.pause(0.02)
            if "model/layer_3/BatchMatMul" in text_of(b.app):
                break
        await b.press("down", "enter")
        await settle(b.pilot)
        assert op_under_cursor(b.app) == "model/layer_3/BatchMatMul"


async def test_slash_in_the_overview_types_a_filter_for_the_ops(browse):
    async with browse as b:
        await b.press("slash", *"Add", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert len(shown_ops(b.app)) == 6


async def test_q_leaves(browse):
    async with browse as b:
        await b.press("q")
        assert b.app.return_code == 0
        assert not b.app.is_running


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
        names = [listed.source.row(n)[0].text for n in range(3)]
        assert names == ["clean", "14", "bert [v2]"]
        await pilot.press("j", "enter")
        await settled(pilot)
        assert "DIVERGES" in text_of(app)
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
        assert "`divergraph demo` makes a run" in text_of(app)
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
        assert app.screen.query_one(RowList).source.row(0)[0].text == "clean"


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
