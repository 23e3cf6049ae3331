"""Both sets of marks: one cell each, and ASCII screens that are ASCII throughout."""

import dataclasses

import pytest
from rich.cells import cell_len

from graphstore.model import OpState
from tui.style.glyphs import ASCII, SETS, UNICODE

pytestmark = pytest.mark.thorough

PART = ("2", "f", "b", "B", "5", "o")
SEVERAL_CELLS = {"name", "bars", "shades", "dots", "at_least", "at_most", "enter"}


@pytest.mark.parametrize("glyphs", SETS.values(), ids=lambda glyphs: glyphs.name)
def test_every_mark_is_one_cell_wide(glyphs):
    for field in dataclasses.fields(glyphs):
        if field.name not in SEVERAL_CELLS:
            assert cell_len(getattr(glyphs, field.name)) == 1, field.name
    assert cell_len(glyphs.bars) == len(glyphs.bars) == 9
    assert cell_len(glyphs.shades) == len(glyphs.shades) == 5


@pytest.mark.parametrize("glyphs", SETS.values(), ids=lambda glyphs: glyphs.name)
def test_states_differ_in_their_marks_without_any_colour(glyphs):
    assert len({glyphs.state(state) for state in OpState}) == len(OpState)


def test_the_ascii_set_is_ascii():
    assert all(str(value).isascii() for value in dataclasses.astuple(ASCII))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_bars_rise_with_the_fraction_and_never_vanish(glyphs):
    levels = [glyphs.bars.index(glyphs.bar(step / 100)) for step in range(101)]
    assert levels == sorted(levels)
    assert (levels[0], levels[1], levels[-1]) == (0, 1, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        (120, 40),
        pytest.param((80, 24), marks=pytest.mark.exhaustive),
        pytest.param((200, 60), marks=pytest.mark.exhaustive),
        (40, 12),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "keys", [(), ("2",), ("2", "j", "enter"), ("2", "y"), ("0",), PART], ids=str
)
async def test_with_the_ascii_set_every_cell_is_ascii(make_app, made_store, settle, size, keys):
    app = make_app(made_store, "14", "ascii")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        for line in app.screen._compositor.render_strips():
            text = "".join(segment.text for segment in line)
            assert text.isascii(), text


@pytest.mark.slow
async def test_without_colour_the_states_still_read(make_app, made_store, settle, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(made_store)
    assert app.no_color
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert "◆     13 model/layer_2/Softmax" in text
        assert "◆ origin" in text
        assert "✗ ≥ 0.99" in text
