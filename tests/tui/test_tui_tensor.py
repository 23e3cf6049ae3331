"""View 6: one tensor of both sides, on a real run whose dumps are there, and on one without."""

from __future__ import annotations

import numpy as np
import pytest
from browsing import op_under_cursor, said, text_of

from divergraph.dump_diff.error_picture import error_map, error_picture
from graphstore.open_store import open_store
from tui.render.tensors import plots
from tui.screens.ops import OpsScreen
from tui.screens.tensor_view.screen import TensorScreen
from tui.style.glyphs import ASCII, UNICODE
from tui.widgets.row_list import RowList

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


async def test_it_opens_on_the_first_origin_with_its_values(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("6")
        assert isinstance(b.app.screen, TensorScreen)
        assert op_under_cursor(b.app) == "mul1"
        text = text_of(b.app)
        with open_store(whole_store) as store:
            figures = next(one.figures for one in store.comparisons("whole") if one.op == "mul1")
        assert figures is not None
        assert f"{figures.device.high:.3g}" in text
        assert "Mean |Δ| along axis 1" in text
        assert len(b.app.screen.query_one("#worst", RowList).source) == 8
        assert "cause: " in text, "why the op is wrong stands beside its picture"


async def test_the_next_tensor_is_an_input_as_another_op_made_it(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("6", "o")
        assert "input 0" in text_of(b.app)
        assert "elements equal" in text_of(b.app)
        await b.press("O")
        assert "output 0" in text_of(b.app)


async def test_d_in_the_list_of_ops_shows_the_values_and_d_goes_back(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("2", "j")
        op = op_under_cursor(b.app)
        await b.press("d")
        assert isinstance(b.app.screen, TensorScreen)
        assert op_under_cursor(b.app) == op
        await b.press("d")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == op


async def test_edges_stay_in_the_view_and_an_address_opens_it(browse, whole_store):
    async with browse(whole_store, "run/whole/op/relu1/output/0?view=tensor") as b:
        assert isinstance(b.app.screen, TensorScreen)
        assert op_under_cursor(b.app) == "relu1"
        await b.press("less_than_sign")
        assert isinstance(b.app.screen, TensorScreen)
        assert op_under_cursor(b.app) == "mul1"
        assert str(b.app.screen.address()) == "run/whole/op/mul1/output/0?view=tensor"


async def test_without_its_files_the_stored_numbers_and_the_reason_are_shown(browse, whole_store):
    async with browse(whole_store, "gone") as b:
        await b.press("6")
        text = text_of(b.app)
        assert "no values: " in text
        assert "cosine similarity" in text
        assert not b.app.screen.has_class("-failed")
        await b.press("a")
        assert "no values are shown" in said(b.app)


async def test_both_sides_are_written_as_they_are_compared(browse, whole_store, tmp_path):
    async with browse(whole_store, "whole") as b:
        await b.press("6", "P", "P")
        assert "whole-mul1-output0-device.npy" in said(b.app)
        device = np.load(tmp_path / "whole-mul1-output0-device.npy")
        golden = np.load(tmp_path / "whole-mul1-output0-golden-2.npy")
        assert device.shape == golden.shape == (1, 8)
        np.testing.assert_allclose(device, 1.5 * golden, rtol=1e-5)


async def test_a_run_without_any_dump_says_so(browse, made_store):
    async with browse(made_store) as b:
        await b.press("2", "f", "6")
        text = text_of(b.app)
        assert "no values: " in text
        assert op_under_cursor(b.app) == "model/layer_2/Softmax"


@pytest.fixture
def shifted():
    """A tensor whose channel 5 of axis 1 is off."""
    rng = np.random.default_rng(1)
    golden = rng.normal(size=(2, 8, 6, 6)).astype(np.float32)
    device = golden.copy()
    device[:, 5] += 1
    return device, golden


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=lambda glyphs: glyphs.name)
@pytest.mark.parametrize("size", [(20, 6), (60, 20), (150, 50)], ids=str)
def test_drawings_fit_and_show_the_channel(shifted, glyphs, size):
    device, golden = shifted
    width, height = size
    found = error_picture(device, golden, atol=0, rtol=0)
    heat = error_map(device, golden, (1, 2), plots.heat_cells(width, height))
    drawn = [
        plots.scatter(found.scatter, glyphs, width, height),
        plots.profile(found.by_axis[0], [5], glyphs, width, height),
        plots.heat(heat, glyphs, width, height),
    ]
    for each in drawn:
        lines = each.plain.splitlines()
        assert len(lines) <= height
        assert max(map(len, lines)) <= width
        assert glyphs is UNICODE or each.plain.isascii()
    full = [line for line in drawn[1].plain.splitlines() if glyphs.bars[-1] in line]
    starts = {line.index(glyphs.bars[-1]) for line in full}
    cells = max(1, (width - plots.LABEL) // 8)
    assert starts == {plots.LABEL + 5 * cells}


def test_a_mean_that_is_no_number_is_drawn_as_broken():
    golden = np.ones((3, 4), np.float32)
    device = golden.copy()
    device[1] = np.inf
    found = error_picture(device, golden, atol=0, rtol=0)
    by_axis = next(each for each in found.by_axis if each.axes == (0,))
    drawn = plots.profile(by_axis, (), UNICODE, 30, 8).plain
    assert UNICODE.broken in drawn
    assert (
        UNICODE.broken
        in plots.heat(error_map(device, golden, (0, 1), (3, 4)), UNICODE, 30, 8).plain
    )
