"""The drawing around an op: its edges with their tensors, and walking along them."""

import pytest
from browsing import op_under_cursor, text_of

from tui.screens.ops import OpsScreen
from tui.screens.windows.neighbourhood import NeighbourhoodOverlay
from tui.widgets.row_list import RowList

pytestmark = pytest.mark.slow

OP = "model/layer_2/Softmax"


def rows(app) -> list[list[str]]:
    source = app.screen.query_one(RowList).source
    return [[cell.text for cell in source.row(n)] for n in range(len(source))]


async def test_it_shows_what_an_op_reads_and_what_reads_it_and_one_walks_there(browse, made_store):
    async with browse(made_store) as b:
        await b.press("2", "f", "L")
        assert isinstance(b.app.screen, NeighbourhoodOverlay)
        names = [row[1].split()[-1] for row in rows(b.app)]
        assert names == ["model/layer_2/MatMul", OP, "model/layer_2/Cast"]
        before, _, behind = rows(b.app)
        assert before[2] == "in 0"
        assert behind[2] == "out 0"
        assert before[3].endswith("1,12,128,64")
        assert before[5] == "0.99999"
        assert "enter goes there" in text_of(b.app)
        await b.press("j", "right")
        assert f"Around {OP.replace('Softmax', 'Cast')}" in text_of(b.app)
        await b.press("left")
        assert f"Around {OP}" in text_of(b.app)
        await b.press("k", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == "model/layer_2/MatMul"
        await b.press("3", "L")
        assert isinstance(b.app.screen, NeighbourhoodOverlay)
        await b.press("escape", "4", "L")
        assert isinstance(b.app.screen, NeighbourhoodOverlay)
