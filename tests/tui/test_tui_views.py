"""Overview, list of ops and list of runs, driven by keys on a real store."""

import csv
import threading

import pytest
from browsing import Browser, op_under_cursor, said, shown_ops, table, text_of
from textual.widgets import Static

from tui.address import parse_address
from tui.screens.edges import EdgeOverlay
from tui.screens.ops import OpsScreen
from tui.screens.overview import OverviewScreen
from tui.screens.runs import RunsScreen
from tui.screens.windows.overlays import LogOverlay, TextOverlay, YankOverlay
from tui.widgets.curve import Curve
from tui.widgets.filter_bar import FilterBar
from tui.widgets.lines import KeyLine, TitleLine
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane


@pytest.fixture
def browse(browse, made_store):
    """Browses the run ``14``."""
    return browse(made_store)


async def test_the_only_run_opens_in_the_overview(browse):
    async with browse as b:
        assert isinstance(b.app.screen, OverviewScreen)
        shown = text_of(b.app)
        assert "DIVERGED  first at ◆ model/layer_2/Softmax  topo 13/36" in shown
        assert "2 origins, 16 inherit" in shown
        assert "30 tensors of 36  19 over the limit" in shown
        assert "inserted by the compiler" in shown


async def test_a_view_that_shrank_and_grew_is_as_one_that_starts_in_that_size(
    make_app, analysed_store, settle
):
    large, pictures = (200, 60), []
    for sizes in ([large], [(120, 36), (60, 24), large]):
        async with Browser(make_app(analysed_store), settle, sizes[0]) as b:
            for size in sizes[1:]:
                await b.pilot.resize_terminal(*size)
                await b.settle(b.pilot)
            pictures.append(text_of(b.app))
    assert pictures[0] == pictures[1]


async def test_a_message_covers_nothing_but_the_names_of_the_views(make_app, made_store, settle):
    app = make_app(made_store)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await settle(pilot)
        before = text_of(app).splitlines()
        app.notify("copied; also in /home/somebody/.local/state/divergraph/copied.txt")
        await settle(pilot)
        after = text_of(app).splitlines()
        (changed,) = [at for at, line in enumerate(after) if line != before[at]]
        assert "1 Overview" in before[changed]
        assert "copied; also in" in after[changed]


@pytest.mark.slow
async def test_every_pane_of_the_overview_leads_to_its_ops(browse):
    async with browse as b:
        b.app.screen.query_one("#modules").focus()
        await b.press("enter")
        assert len(shown_ops(b.app)) == 6
        assert all(op.startswith("model/layer_2/") for op in shown_ops(b.app)), "a name space"
        await b.press("1")
        b.app.screen.query_one("#reasons").focus()
        await b.press("enter")
        assert shown_ops(b.app) == [f"model/layer_{n}/Cast" for n in range(6)], (
            "not compared for it"
        )
        await b.press("1")
        b.app.screen.query_one(Curve).focus()
        await b.press("enter")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax", "the op under the marker"
        await b.press("1")
        b.app.screen.query_one("#origins").focus()
        await b.press("j", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == "model/layer_4/LayerNorm", "an origin"


@pytest.mark.slow
async def test_the_list_of_ops_and_what_can_be_done_with_it(browse):
    async with browse as b:
        await b.press("2")
        ops = shown_ops(b.app)
        assert ops[:2] == ["model/layer_5/BatchMatMul", "model/layer_2/Softmax"], "the worst first"
        assert [op.rpartition("/")[2] for op in ops[-6:]] == ["Cast"] * 6, "not compared: last"
        facts = text_of(b.app)
        assert "◆ origin" in facts
        assert "listed by the device graph" in facts
        assert "relative Euclidean distance         0.27" in facts
        assert "axes=[-1]" in facts
        assert "98 304 elements" in facts

        await b.press("enter")
        assert isinstance(b.app.screen, TextOverlay)
        assert "golden/op.npy" in text_of(b.app), "everything about an op"
        await b.press("escape")
        assert isinstance(b.app.screen, OpsScreen)

        await b.press("question_mark")
        shown = text_of(b.app)
        assert "In the list of ops" in shown
        assert "not now: no filter was typed yet" in shown
        await b.press("escape", "f1")
        shown = text_of(b.app)
        assert "max|" in shown
        assert "cosine similarity" in shown
        assert "the op's place in execution order" in shown
        await b.press("G")
        assert "within every limit and warning level" in text_of(b.app)
        await b.press("escape")
        assert isinstance(b.app.screen, OpsScreen)

        await b.press("w")
        assert table(b.app).virtual_size.width > 118, "all columns in full"
        await b.press("w")
        assert table(b.app).virtual_size.width <= 118
        await b.press("tab", "z")
        assert b.app.screen.maximized is b.app.screen.query_one("#facts", TextPane)
        await b.press("z")
        assert b.app.screen.maximized is None
        await b.press("z", "escape")
        assert b.app.screen.maximized is None


@pytest.mark.slow
async def test_rows_are_sorted_by_keys_and_by_a_click_on_a_heading(browse, settle):
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
        await b.pilot.click("#ops", offset=(5, 1))
        await settle(b.pilot)
        assert shown_ops(b.app)[0] == "model/layer_0/MatMul"


@pytest.mark.slow
async def test_a_filter_that_is_wrong_or_leaves_out_what_is_wanted(browse):
    async with browse as b:
        await b.press("2")
        await b.filter("state:origin")
        await b.filter("state:origin coz<0.9")
        assert len(shown_ops(b.app)) == 2, "the rows stay"
        bar = b.app.screen.query_one(FilterBar)
        assert (bar.wrong_span, "no field 'coz'" in text_of(b.app)) == ((13, 16), True)
        await b.filter("cos<0.97")
        assert bar.wrong_span is None
        assert len(shown_ops(b.app)) == 1
        await b.press("enter", "at")
        assert isinstance(b.app.screen, LogOverlay), "commands that show the same"
        await b.press("enter")
        assert b.app.clipboard == "divergraph ops 14 --where 'cos<0.97' --store .divergraph"
        await b.filter("type:Add")
        await b.press("enter", "f")
        assert "model/layer_2/Softmax is filtered out; esc clears" in said(b.app)


@pytest.mark.slow
async def test_the_chart_shows_other_metrics_and_lists_what_is_beyond_a_limit(browse):
    async with browse as b:
        chart = b.app.screen.query_one(Curve)
        chart.focus()
        shown = [chart.full_title]
        while len(shown) < 20 and (len(shown) < 2 or shown[-1] != shown[0]):
            await b.press("m")
            shown.append(chart.full_title)
        assert shown[0] == shown[-1] == "Cosine along execution order"
        assert "Relative error along execution order" in shown
        assert len(set(shown)) == len(shown) - 1 > 3
        await b.press("M", "m", "minus", "F")
        assert b.app.screen.VIEW == "ops"
        assert shown_ops(b.app)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_f_and_e_visit_the_origins_in_execution_order(browse):
    async with browse as b:
        seen = []
        for key in ("f", "e", "e", "E", "E"):
            await b.press(key)
            seen.append(op_under_cursor(b.app))
        first, second = "model/layer_2/Softmax", "model/layer_4/LayerNorm"
        assert seen == [first, second, second, first, first]
        assert "no origin before this op" in said(b.app)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_along_the_edges_from_op_to_op(browse):
    async with browse as b:
        await b.press("2", "f", "less_than_sign")
        assert op_under_cursor(b.app) == "model/layer_2/MatMul"
        await b.press("greater_than_sign")
        assert isinstance(b.app.screen, EdgeOverlay), "two ops read it"
        listed = b.app.screen.query_one(RowList)
        ops = [listed.source.row(index)[1].text for index in range(len(listed.source))]
        listed.cursor = ops.index("model/layer_2/Softmax")
        await b.press("enter")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"


@pytest.mark.slow
async def test_no_detail_stands_under_another_op(browse, monkeypatch):
    async with browse as b:
        await b.press("2", "f")
        answer, go_on = b.app.session.detail, threading.Event()
        monkeypatch.setattr(
            b.app.session, "detail", lambda op: answer(op) if go_on.wait(30) else None
        )
        before = b.app.screen.query_one("#facts", TextPane).full_title
        try:
            await b.pilot.press("j")
            await b.pilot.pause(0.5)
            facts = b.app.screen.query_one("#facts", TextPane)
            assert facts.full_title == op_under_cursor(b.app) != before
            assert "loading" in text_of(b.app)
            assert "origin" not in str(facts.query_one(Static).content)
        finally:
            go_on.set()
        await b.settle(b.pilot)
        assert "loading" not in text_of(b.app)


async def test_what_to_do_next_and_why(make_app, analysed_store, settle):
    """On the overview at once, with the reckoning behind a key, which works in any view."""
    async with Browser(make_app(analysed_store, "15"), settle, (120, 60)) as b:
        overview = b.app.screen.query_one("#verdict", TextPane)
        shown = overview.query_one(Static).render().plain
        assert "next      " in shown
        await b.press("W")
        why = text_of(b.app)
        origin = b.app.screen_stack[-2].current_op()
        assert "What to do next" in why
        assert f"Why {origin} is judged so" in why
        assert "suspect above 6" in why
        await b.press("escape", "2", "g", "W")
        assert f"Why {b.app.screen_stack[-2].current_op()} is judged so" in text_of(b.app)
        assert b.app.session.commands[-2].startswith("divergraph advise 15")


async def test_limits_have_no_reckoning(browse):
    async with browse as b:
        await b.press("W")
        assert "divergraph analyse" in text_of(b.app)


async def test_the_chart_shows_one_type_or_state_with_its_counts(browse):
    async with browse as b:
        chart = b.app.screen.query_one(Curve)
        chart.focus()
        whole = len(chart.ops)
        await b.press("s")
        assert 0 < len(chart.ops) < whole
        assert len(chart.ops.states.counted()) == 1
        assert f" of {len(chart.ops)} ops beyond" in str(chart.border_subtitle)
        await b.press("m", "t")
        assert chart.ops.where.startswith("state:")
        assert " type:" in chart.ops.where or chart.ops.where.startswith("type:")
        await b.press("F")
        assert isinstance(b.app.screen, OpsScreen)
        assert " of " in text_of(b.app)


async def test_the_key_line_and_the_title_are_clicked(browse):
    async with browse as b:
        keys = b.app.screen.query_one(KeyLine)
        lines = text_of(b.app).splitlines()
        await b.pilot.click(keys, offset=(lines[keys.region.y].index("filter"), 0))
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, OpsScreen)
        title = b.app.screen.query_one(TitleLine)
        await b.pilot.click(title, offset=(lines[0].index("run "), 0))
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, OverviewScreen)
        await b.pilot.click(b.app.screen.query_one(TitleLine), offset=(3, 0))
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, RunsScreen)
