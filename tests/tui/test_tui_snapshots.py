"""Pictures of the views in each size, with both sets of marks. The made run and its times
are fixed; copies of old pictures lie in ``__snapshots__`` (``pytest --snapshot-update``)."""

import pytest

from tui.widgets.filter_bar import FilterInput

pytestmark = pytest.mark.slow

SIZES = [
    (80, 24),
    pytest.param((120, 40), marks=pytest.mark.slow),
    pytest.param((200, 60), marks=pytest.mark.slow),
]
PLACES = {
    "overview": (),
    "ops": ("2", "f"),
    "query": ("7",),
    "lineage": ("3", "u"),
    "help": ("2", "question_mark"),
    "detail": ("2", "f", "enter"),
}


@pytest.fixture
def picture(make_app, made_store, settle, snap_compare):
    """Compares the app, at rest after some keys, with its kept picture."""

    def compare(keys=(), size=(120, 40), glyphs="unicode", start="14", theme="dark"):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            await settle(pilot)

        app = make_app(made_store, start, glyphs, theme)
        return snap_compare(app, run_before=run_before, terminal_size=size)

    return compare


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("place", ["overview", "ops", "query", "lineage"])
def test_view(picture, place, size, glyphs):
    assert picture(PLACES[place], size, glyphs)


@pytest.fixture
def analysed_picture(make_app, analysed_store, settle, snap_compare):
    """The same for the run whose errors were split."""

    def compare(keys, size, glyphs="unicode", theme="dark"):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)

        app = make_app(analysed_store, "15", glyphs, theme)
        return snap_compare(app, run_before=run_before, terminal_size=size)

    return compare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("keys", [(), ("2", "f"), ("4",)], ids=["overview", "ops", "propagation"])
def test_a_run_whose_errors_were_split(analysed_picture, keys, size):
    assert analysed_picture(keys, size)


def test_the_way_of_an_error_in_ascii(analysed_picture):
    assert analysed_picture(("4", "u"), (120, 40), "ascii")


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("keys", [(), ("a",) * 4], ids=["one axis", "two axes"])
def test_a_tensor(make_app, valued_store, settle, snap_compare, keys, size, glyphs):
    async def run_before(pilot):
        await settle(pilot)
        await settle(pilot)
        for key in ("6", *keys):
            await pilot.press(key)
            await settle(pilot)
            await settle(pilot)

    app = make_app(valued_store, "values", glyphs)
    assert snap_compare(app, run_before=run_before, terminal_size=size)


PART = ("2", "f", "b", "5", "j", "j", "j", "B")
REFUSED = ("2", "f", "B", "5", "j", "j", "j", "b")


@pytest.mark.parametrize(
    ("keys", "size", "glyphs", "theme"),
    [
        (PART, (80, 24), "unicode", "dark"),
        (PART, (120, 40), "unicode", "dark"),
        (PART, (200, 60), "unicode", "light"),
        (PART, (120, 40), "ascii", "dark"),
        (REFUSED, (120, 40), "unicode", "light"),
    ],
    ids=["narrow", "usual", "wide", "ascii", "refused"],
)
def test_a_part(make_app, fused_store, settle, snap_compare, keys, size, glyphs, theme):
    async def run_before(pilot):
        await settle(pilot)
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
            await settle(pilot)
        pilot.app.clear_notifications()
        await settle(pilot)

    app = make_app(fused_store, "14", glyphs, theme)
    assert snap_compare(app, run_before=run_before, terminal_size=size)


@pytest.mark.parametrize("place", ["help", "detail"])
def test_window(picture, place):
    assert picture(PLACES[place])


WINDOWS = {
    "help": ("2", "question_mark"),
    "detail": ("2", "f", "enter"),
    "words": ("2", "f1"),
    "why": ("W",),
    "copy": ("2", "f", "y"),
    "around": ("2", "f", "L"),
}


@pytest.mark.parametrize("place", WINDOWS)
def test_a_window_in_a_small_terminal(analysed_picture, place):
    assert analysed_picture(WINDOWS[place], (80, 24), "ascii" if place == "around" else "unicode")


VIEWS = {
    "overview": (),
    "ops": ("2", "f"),
    "lineage": ("3", "u"),
    "propagation": ("4",),
    "query": ("7",),
    "runs": ("0",),
    "why": ("W",),
}


@pytest.mark.parametrize("theme", ["light", "contrast"])
@pytest.mark.parametrize("place", VIEWS)
def test_themes(analysed_picture, place, theme):
    assert analysed_picture(VIEWS[place], (120, 40), theme=theme)


def test_a_wrong_filter(make_app, made_store, settle, snap_compare):
    async def run_before(pilot):
        await settle(pilot)
        await settle(pilot)
        await pilot.press("2", "slash")
        await settle(pilot)
        for text in ("cos<0.98", "cos<0.98 state:org"):
            pilot.app.screen.query_one(FilterInput).value = text
            await settle(pilot)
            await settle(pilot)

    app = make_app(made_store, "14")
    assert snap_compare(app, run_before=run_before, terminal_size=(120, 40))


def test_runs(picture):
    assert picture(("0",))


def test_a_problem(picture):
    assert picture(start="no such run")
