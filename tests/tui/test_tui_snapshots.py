"""Pictures of views in their colours (``pytest --snapshot-update``); their texts in each size and
with both sets of marks, and all windows: ``test_tui_pictures``."""

import pytest

from tui.widgets.filter_bar import FilterInput

pytestmark = pytest.mark.slow

PLACES = {
    "overview": (),
    "ops": ("2", "f"),
    "query": ("7",),
    "lineage": ("3", "u"),
}


@pytest.fixture
def picture(make_app, made_store, settle, snap_compare):
    """Compares the app, at rest after some keys, with its kept picture."""

    def compare(keys=()):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            await settle(pilot)

        app = make_app(made_store, "14")
        return snap_compare(app, run_before=run_before, terminal_size=(120, 40))

    return compare


@pytest.mark.parametrize("place", PLACES)
def test_view(picture, place):
    assert picture(PLACES[place])


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


@pytest.mark.parametrize("keys", [(), ("2", "f"), ("4",)], ids=["overview", "ops", "propagation"])
def test_a_run_whose_errors_were_split(analysed_picture, keys):
    assert analysed_picture(keys, (120, 40))


def test_the_way_of_an_error_in_ascii(analysed_picture):
    assert analysed_picture(("4", "u"), (120, 40), "ascii")


@pytest.mark.parametrize("keys", [(), ("a",) * 4], ids=["one axis", "two axes"])
def test_a_tensor(make_app, valued_store, settle, snap_compare, keys):
    async def run_before(pilot):
        await settle(pilot)
        await settle(pilot)
        for key in ("6", *keys):
            await pilot.press(key)
            await settle(pilot)
            await settle(pilot)

    app = make_app(valued_store, "values")
    assert snap_compare(app, run_before=run_before, terminal_size=(120, 40))


PART = ("2", "f", "b", "5", "j", "j", "j", "B")
REFUSED = ("2", "f", "B", "5", "j", "j", "j", "b")


@pytest.mark.parametrize(
    ("keys", "theme"),
    [(PART, "dark"), (REFUSED, "light")],
    ids=["usual", "refused"],
)
def test_a_part(make_app, fused_store, settle, snap_compare, keys, theme):
    async def run_before(pilot):
        await settle(pilot)
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
            await settle(pilot)
        pilot.app.clear_notifications()
        await settle(pilot)

    app = make_app(fused_store, "14", theme=theme)
    assert snap_compare(app, run_before=run_before, terminal_size=(120, 40))


VIEWS = {"ops": ("2", "f"), "lineage": ("3", "u"), "why": ("W",)}


@pytest.mark.exhaustive
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
