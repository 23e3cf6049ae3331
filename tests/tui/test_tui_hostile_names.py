"""Names meant to act on the terminal, or as markup, are shown and do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tui.widgets.filter_bar import FilterInput

pytestmark = pytest.mark.thorough

SHOWN = r"[red]m[/]\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\u202erow\nfake"
OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]")


def lines_of(app) -> Iterator[str]:
    for strip in app.screen._compositor.render_strips():
        yield "".join(segment.text for segment in strip)


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        (),
        ("2", "f", "enter"),
        ("2", "f", "y", "n"),
        ("2", "w"),
        ("2", "x"),
        ("3", "u", "minus", "tab"),
        ("4",),
        ("2", "f", "6", "o"),
        ("2", "f", "b", "B", "5", "o"),
        ("at",),
        ("0",),
        ("colon", "r", "o", "w"),
    ],
    ids=" ".join,
)
async def test_every_view_shows_names_as_escapes(make_app, hostile_store, settle, keys):
    app = make_app(hostile_store, "14")
    app.settings.export_dir.mkdir(exist_ok=True)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
            assert not any(map(OBEYED.search, lines_of(app)))
        said = "".join(notice.message for notice in app._notifications)
        assert OBEYED.search(said) is None
        if keys == ("2", "f", "enter"):
            assert any(SHOWN[:20] in line for line in lines_of(app))


@pytest.mark.slow
async def test_a_filter_shows_a_name_and_keeps_it(make_app, hostile_store, hostile_name, settle):
    app = make_app(hostile_store, "14")
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        field = app.screen.query_one(FilterInput)
        field.value = f'name:"{hostile_name}'
        app.notify(f"{hostile_name} [blue]is gone[/]")
        await settle(pilot)
        text = "\n".join(lines_of(app))
        assert OBEYED.search(text.replace("\n", "")) is None
        assert "[red]m[/]?[2J?]52;c;cm0=?" in text
        (notice,) = app._notifications
        assert (notice.message, notice.markup) == (f"{SHOWN} [blue]is gone[/]", False)
        assert field.value == f'name:"{hostile_name}'
