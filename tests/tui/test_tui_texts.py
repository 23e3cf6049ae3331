"""The texts of panes: nothing that matters is cut where there is no room."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from divergraph.questions import OpDetail, ReasonGroup, TensorRow
from graphstore.model import DType, OpState, Reason, Side
from graphstore.op_row import OpRow
from tui import detail_text, overview_rows
from tui.glyphs import UNICODE
from tui.widgets.columns import place

LONG = "/".join(f"层_{number}/[block]" for number in range(30))


def detail_of(name: str) -> OpDetail:
    shape = (1, 2)
    row = OpRow(
        7, name, name, "Add", Side.DEVICE, "", "float16", shape, "ND", 1, (name,), OpState.CLEAN
    )
    output = TensorRow(0, name, None, (name,), DType.FLOAT16, shape, "ND", None)
    return OpDetail(row, {"note": name}, (), (output,), (), (), "within every limit")


@pytest.mark.parametrize("width", [24, 60, 200])
def test_one_op_in_full_shows_all_of_a_long_name(width):
    lines = detail_text.facts(detail_of(LONG), UNICODE, width, whole=True).split("\n")
    assert max(line.cell_length for line in lines) <= max(width, detail_text.LABEL + 20)
    text = "".join(line.plain[detail_text.LABEL :].rstrip() for line in lines)
    assert text.count(LONG) == 4, "as op, output, original and attribute"


def test_the_short_text_keeps_the_end_of_a_long_name_and_where_it_goes():
    text = detail_text.facts(detail_of(LONG), UNICODE, 60).plain
    assert LONG not in text
    outputs = next(line for line in text.split("\n") if line.startswith("outputs"))
    assert f"{UNICODE.feeds} {UNICODE.ellipsis}" in outputs
    assert "[block]  1,2" in outputs


@pytest.mark.parametrize("room", [30, 60])
def test_a_number_is_never_cut_short(room):
    groups = (ReasonGroup(Reason.NO_DEVICE_DUMP, 1_234_567, ("a",)),)
    rows = overview_rows.reasons(SimpleNamespace(reasons=groups))
    count = next(placed for placed in place(rows.columns, room) if placed.column.id == "count")
    assert count.width >= len(rows.row(0)[0].text) == len("1 234 567")
