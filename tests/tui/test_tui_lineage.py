"""View 3: both graphs beside each other, and going along edges and links."""

from __future__ import annotations

import pytest
from browsing import Browser, op_under_cursor, said, text_of
from layered_run import analysed_run

from graphstore.model import Side
from graphstore.open_store import open_store
from tui.ladder import ladders_of
from tui.render.ladder_rows import Folding, LadderRows, LadderSteps
from tui.screens.ops import OpsScreen
from tui.style.glyphs import UNICODE
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

FUSED = "model/layer_2/MatMul"
CORE, BIAS = f"{FUSED}/core", f"{FUSED}/bias"


@pytest.fixture
def browse(browse, made_store):
    """Browses the run ``14``."""
    return browse(made_store)


def listed(app, pane: str) -> list[list[str]]:
    """The cells of all rows of a ladder."""
    source = app.screen.query_one(pane, RowList).source
    return [[cell.text for cell in source.row(index)] for index in range(len(source))]


def marked(app, pane: str) -> list[str]:
    """The ops of a ladder that are linked to the one under the other cursor."""
    return [row[3] for row in listed(app, pane) if row[0] == UNICODE.marked]


def about(app) -> str:
    """The pane about the links, as text."""
    pane = app.screen.query_one("#link", TextPane)
    return pane._build(100).plain


async def find(b, name: str) -> None:
    await b.press("slash", *name, "enter")


async def test_it_opens_on_the_first_origin_with_its_original_marked(browse):
    async with browse as b:
        await b.press("3")
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"
        assert marked(b.app, "#original") == ["model/layer_2/Softmax"]


async def test_all_originals_of_a_fused_op_and_back_from_one_by_name(browse):
    async with browse as b:
        await b.press("3")
        await find(b, FUSED)
        assert marked(b.app, "#original") == [CORE, BIAS]
        assert "2 originals" in about(b.app)
        assert "listed by the device graph" in about(b.app)
        await find(b, BIAS)
        assert op_under_cursor(b.app) == BIAS
        assert marked(b.app, "#device") == [FUSED]
        assert "together with 1 other" in about(b.app)


async def test_a_fused_op_unfolds_into_its_originals_and_one_of_them_is_gone_to(browse):
    async with browse as b:
        await b.press("3")
        await find(b, FUSED)
        before = len(listed(b.app, "#device"))
        await b.press("enter")
        rows = listed(b.app, "#device")
        at = [row[3] for row in rows].index(FUSED)
        assert [row[3] for row in rows[at + 1 : at + 3]] == [CORE, BIAS]
        await b.press("j", "j", "enter")
        assert op_under_cursor(b.app) == BIAS
        await b.press("shift+tab")
        await find(b, FUSED)
        await b.press("enter")
        assert len(listed(b.app, "#device")) == before


async def test_u_unfolds_all_fused_ops_and_folds_them(browse):
    async with browse as b:
        await b.press("3")
        before = len(listed(b.app, "#device"))
        await b.press("u")
        assert len(listed(b.app, "#device")) == before + 2 * 6
        await b.press("u")
        assert len(listed(b.app, "#device")) == before


async def test_the_other_graph_follows_the_cursor(browse):
    async with browse as b:
        await b.press("3", "j")
        assert op_under_cursor(b.app) == "model/layer_2/Cast"
        assert marked(b.app, "#original") == []
        assert "no original" in about(b.app)
        await b.press("j")
        assert marked(b.app, "#original") == ["model/layer_2/BatchMatMul"]


async def test_tab_stands_on_the_linked_op(browse):
    async with browse as b:
        await b.press("3", "tab")
        assert b.app.screen.address().side == Side.GOLDEN
        assert marked(b.app, "#device") == ["model/layer_2/Softmax"]


async def test_only_linked_ops(browse):
    async with browse as b:
        await b.press("3", "o")
        names = [row[3] for row in listed(b.app, "#device")]
        assert "model/layer_0/MatMul" in names
        assert not any(name.endswith("Cast") for name in names)
        await b.press("o")
        assert any(row[3].endswith("Cast") for row in listed(b.app, "#device"))


async def test_name_spaces_fold_and_open(browse):
    async with browse as b:
        await b.press("3", "minus")
        names = [row[3] for row in listed(b.app, "#device")]
        assert names == [f"model/layer_{layer}/" for layer in range(6)]
        await b.press("minus")
        assert [row[3] for row in listed(b.app, "#device")] == ["model/"]
        await b.press("plus", "enter")
        assert len(listed(b.app, "#device")) == 5 + 6
        await b.press("plus", "plus")
        assert len(listed(b.app, "#device")) == 36


async def test_edges_stay_in_the_view(browse):
    async with browse as b:
        await b.press("3")
        await b.press("greater_than_sign")
        assert op_under_cursor(b.app) == "model/layer_2/Cast"
        assert b.app.screen.VIEW == "lineage"


async def test_what_nobody_is_called_and_the_next_of_a_name(browse):
    async with browse as b:
        await b.press("3")
        await find(b, "nobody")
        assert "no op of either graph is called nobody" in said(b.app)
        await find(b, "layernorm")
        assert op_under_cursor(b.app) == "model/layer_0/LayerNorm"
        await b.press("n")
        assert op_under_cursor(b.app) == "model/layer_1/LayerNorm"


async def test_the_op_in_the_list_of_ops_and_back(browse):
    async with browse as b:
        await b.press("3")
        await find(b, BIAS)
        await b.press("d")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == FUSED
        await b.press("left_square_bracket")
        assert op_under_cursor(b.app) == BIAS


async def test_marks_of_a_part_are_set_on_the_device_op_of_an_original(browse):
    async with browse as b:
        await b.press("3")
        await find(b, BIAS)
        await b.press("b")
        assert b.app.session.marks.now.starts == (FUSED,)


async def test_an_imported_graph_alone_names_its_originals(make_app, several_store, settle):
    async with Browser(make_app(several_store, "bert [v2]"), settle) as b:
        await b.press("3")
        assert "by name" in text_of(b.app)
        await find(b, BIAS)
        assert marked(b.app, "#device") == [FUSED]
        assert "together with 1 other" in about(b.app)


async def test_the_same_as_cypher_gives_the_links_of_the_op(browse):
    async with browse as b:
        await b.press("3")
        await find(b, FUSED)
        await b.press("Q")
        answer = b.app.screen.query_one("#answer", RowList).source
        shown = [" ".join(c.text for c in answer.row(n)) for n in range(len(answer))]
        assert any(CORE in row for row in shown)
        assert any(BIAS in row for row in shown)


@pytest.fixture
def ladders(tmp_path):
    """Both graphs of an analysed run."""
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(analysed_run())
        from divergraph.ask.facts import load_facts

        return ladders_of(store, "15", "run", load_facts(store, "15").rows)


def test_rows_are_found_again_whatever_is_folded_and_unfolded(ladders):
    steps = LadderSteps(ladders, Side.DEVICE, Folding(), UNICODE)
    rows = LadderRows(ladders, steps, UNICODE, unfolded={0, 12, 35})
    for row in range(len(steps)):
        assert rows.place(rows.index_of(row)) == (row, "")
    places = [rows.place(index) for index in range(len(rows))]
    assert len(set(places)) == len(rows)
    assert [row for row, _ in places] == sorted(row for row, _ in places)


@pytest.mark.parametrize("depth", [None, 1, 2])
@pytest.mark.parametrize("linked_only", [False, True])
def test_every_op_is_in_one_row_or_left_out(ladders, depth, linked_only):
    steps = LadderSteps(ladders, Side.DEVICE, Folding(depth, linked_only=linked_only), UNICODE)
    shown = [
        number
        for first, last in zip(steps.first, steps.last, strict=True)
        for number in range(first, last + 1)
    ]
    assert len(shown) == len(set(shown))
    for number, name in enumerate(steps.ladder.ids):
        wanted = not linked_only or bool(ladders.links_of(Side.DEVICE, name))
        assert steps.shows(number) == (number in shown) == wanted


async def test_all_views_keep_their_key_in_a_narrow_terminal(make_app, made_store, settle):
    async with Browser(make_app(made_store, "14"), settle, size=(60, 20)) as b:
        await b.press("3")
        line = text_of(b.app).splitlines()[1]
        assert line.split() == ["1", "2", "[3", "Lineage]", "4", "5", "6", "7", "8"]
