"""Pictures of the views in each size, with both sets of marks. The made run and its times
are fixed; copies of old pictures lie in ``__snapshots__`` (``pytest --snapshot-update``)."""

import pytest

SIZES = [(80, 24), (120, 40), (200, 60)]
PLACES = {
    "overview": (),
    "ops": ("2", "f"),
    "filter": ("2", "slash", *"cos<0.98 state:org"),
    "help": ("2", "question_mark"),
    "detail": ("2", "f", "enter"),
}


@pytest.fixture
def picture(make_app, made_store, settle, snap_compare):
    """Compares the app, at rest after some keys, with its kept picture."""

    def compare(keys=(), size=(120, 40), glyphs="unicode", start="14"):
        async def run_before(pilot):
            await settle(pilot)
            await settle(pilot)
            for key in keys:
                await pilot.press(_NAMES.get(key, key))
            await settle(pilot)
            await settle(pilot)

        app = make_app(made_store, start, glyphs)
        return snap_compare(app, run_before=run_before, terminal_size=size)

    return compare


_NAMES = {"<": "less_than_sign", ".": "full_stop", " ": "space", ":": "colon"}


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("place", ["overview", "ops"])
def test_view(picture, place, size, glyphs):
    assert picture(PLACES[place], size, glyphs)


@pytest.mark.parametrize("place", ["filter", "help", "detail"])
def test_window(picture, place):
    assert picture(PLACES[place])


def test_runs(picture):
    assert picture(("0",))


def test_a_problem(picture):
    assert picture(start="no such run")
