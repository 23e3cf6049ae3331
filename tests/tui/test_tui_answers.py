"""A declared question asked from the palette: its map with a legend, and rows to go on from."""

from __future__ import annotations

import pytest
from browsing import op_under_cursor, text_of

from divergraph.ask.registry import own_question
from divergraph.present.pictures.state_map import StateCell, StateMap
from graphstore.model import OpState
from tui.render.state_map_text import state_map_text
from tui.screens.asked_question import ask
from tui.screens.windows.answer import AnswerOverlay
from tui.style.glyphs import ASCII
from tui.widgets.row_list import RowList

pytestmark = pytest.mark.thorough


async def test_the_answer_about_a_model_leads_to_its_ops(browse, analysed_store, settle):
    async with browse(analysed_store) as b:
        ask(b.app, own_question("model"))
        await settle(b.pilot)
        await b.press("f5")
        assert isinstance(b.app.screen, AnswerOverlay)
        shown = text_of(b.app)
        assert "◆ origin" in shown
        table = b.app.screen.table
        op = table.rows[0][table.names.index("op")]
        assert b.app.screen.query_one(RowList).has_focus
        await b.press("enter")
        assert op_under_cursor(b.app) == op


async def test_a_click_on_a_field_of_a_map_leads_to_its_op(browse, analysed_store, settle):
    async with browse(analysed_store) as b:
        ask(b.app, own_question("model"))
        await settle(b.pilot)
        await b.press("f5")
        table = b.app.screen.table
        op = table.rows[0][table.names.index("op")]
        places = ((x, y) for y in range(b.app.size.height) for x in range(b.app.size.width))
        fields = [at for at in places if "open_cell" in str(b.app.screen.get_style_at(*at).meta)]
        assert fields
        await b.pilot.click(offset=fields[0])
        await settle(b.pilot)
        assert op_under_cursor(b.app) == op


def test_a_map_says_what_its_marks_mean_and_what_does_not_fit():
    states = (OpState.ORIGIN, OpState.INHERITED)
    cells = [StateCell(0, at, states[at % 2], "run", "op", "") for at in range(30)]
    picture = StateMap("rank", ("a/very/long/name",), tuple(map(str, range(30))), tuple(cells), "")
    lines = state_map_text(picture, ASCII, 40).plain.splitlines()
    assert lines[0].split() == ["rank", "0", "2", "4", "6", "8", "10"]
    assert lines[1] == "a/~/long/name  # v # v # v # v # v # v "
    assert lines[-1].startswith("# origin   v inherited   and 18 more")
