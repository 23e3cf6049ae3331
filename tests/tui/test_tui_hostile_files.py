"""Runs all of whose texts are hostile: each view shows them, and none of them acts."""

from __future__ import annotations

import re

import pytest
from full_run import sample_run
from hostile_run import hostile_throughout
from layered_run import analysed_run
from rich.segment import Segment
from textual.color import Color
from textual.content import Content
from textual.widgets import Static

from graphstore.open_store import open_store
from tui.terminal.only_text import OnlyText, only_text

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def strangers_store(tmp_path_factory) -> str:
    url = str(tmp_path_factory.mktemp("store") / "strangers")
    with open_store(url) as store:
        store.save_run(hostile_throughout(sample_run("full")))
        store.save_run(hostile_throughout(analysed_run("layers")))
        store.save_graph(hostile_throughout(sample_run("full")).device, "graph")
    return url


def lines_of(app) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


@pytest.mark.parametrize("start", ["full", pytest.param("layers", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "keys",
    [
        ("0",),
        ("1",),
        ("2", "enter", "escape", "w", "x"),
        ("2", "f", "enter", "end", "escape", "y", "escape"),
        ("3", "o", "j", "enter", "escape"),
        ("4", "o", "enter", "escape"),
        ("2", "f", "b", "j", "B", "5", "o", "enter", "escape"),
        ("at",),
        ("1", "W", "escape", "2", "j", "W"),
        ("colon", "c", "o", "n", "v"),
        ("2", "slash", "c", "o", "n", "v", "escape"),
    ],
    ids=" ".join,
)
async def test_no_view_hands_the_terminal_what_it_would_obey(
    make_app, strangers_store, settle, monkeypatch, start, keys
):
    await never_obeyed(make_app, strangers_store, settle, monkeypatch, start, keys)


async def test_no_view_of_a_graph_does(make_app, strangers_store, settle, monkeypatch):
    keys = (*"12", "enter", "escape", *"wx", "escape", *"1W", "escape", *"34567", "at", "escape")
    await never_obeyed(make_app, strangers_store, settle, monkeypatch, "graph", keys)


async def never_obeyed(make_app, strangers_store, settle, monkeypatch, start, keys) -> None:
    """Already before the last filter, which would put question marks there."""
    came: list[str] = []
    last = OnlyText.apply

    def noted(self, segments: list[Segment], background: Color) -> list[Segment]:
        came.extend(segment.text for segment in segments)
        return last(self, segments, background)

    monkeypatch.setattr(OnlyText, "apply", noted)
    app = make_app(strangers_store, start)
    app.settings.export_dir.mkdir(exist_ok=True)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
            assert not any(map(OBEYED.search, lines_of(app)))
        said = "".join(notice.message for notice in app._notifications)
    assert came
    assert [text for text in came if OBEYED.search(text)] == []
    assert OBEYED.search(said) is None
    for file in app.settings.export_dir.glob("*.csv"):
        assert OBEYED.search(file.read_text().replace("\n", "").replace("\r", "")) is None


async def test_text_of_any_widget_is_only_text(make_app, strangers_store, settle):
    app = make_app(strangers_store, "full")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.screen.mount(Static(Content("a\x1b[2Jb\u202ec\x9b31m\u2028d"), id="forgotten"))
        await settle(pilot)
        assert not any(map(OBEYED.search, lines_of(app)))
        assert any("a[2Jbc31md" in line for line in lines_of(app))


def test_a_line_keeps_its_width():
    segments = [Segment("a\x1bb"), Segment("\ud800é")]
    kept = OnlyText().apply(segments, Color(0, 0, 0))
    assert [segment.text for segment in kept] == ["ab", "?é"]
    assert sum(each.cell_length for each in kept) == sum(each.cell_length for each in segments)
    assert only_text("层 x") == "层 x"
