"""The themes: colours that can be read, chosen on screen and kept."""

import pytest
from browsing import said
from contrast import LEAST, contrast
from textual.color import Color

from tui.app import DivergraphApp
from tui.settings import THEMES, chosen_theme, load_settings
from tui.style import theme

KNOWN = {"dark": theme.DARK, "light": theme.LIGHT, "contrast": theme.CONTRAST}


@pytest.mark.parametrize("name", THEMES)
def test_every_text_can_be_read(name):
    known = KNOWN[name]
    assert known.name == THEMES[name]
    behind = {known.background, known.panel, known.variables["selected"]}
    on_red = known.variables["state-broken-background"]
    for variable, colour in known.variables.items():
        if variable in ("border-blurred", "state-broken-background", "selected"):
            continue
        for other in {
            "state-broken": {on_red},  # white on red, and bold
            "faint": {known.background, known.panel},
        }.get(variable, behind):
            ratio = contrast(Color.parse(colour), Color.parse(other))
            assert ratio >= LEAST[name], (variable, other)


@pytest.mark.slow
async def test_t_goes_through_the_themes_and_the_choice_is_kept(browse, made_store):
    async with browse(made_store) as b:
        seen = []
        for _ in THEMES:
            await b.press("T")
            seen.append(b.app.theme)
            assert THEMES[chosen_theme(b.app.settings.state_dir)] == b.app.theme
        assert seen == [THEMES[name] for name in ("light", "contrast", "dark")]
        assert "colours: contrast" in said(b.app)


async def test_what_a_theme_brings_is_there_from_the_beginning(make_app, made_store, settle):
    """The framework's own marks of it too, which come where a theme is put in the place of one."""
    app = make_app(made_store, theme="light")
    async with app.run_test() as pilot:
        await settle(pilot)
        assert {"-light-mode", f"-theme-{THEMES['light']}"} <= app.classes
        assert "-dark-mode" not in app.classes


def test_what_was_chosen_counts_where_the_file_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert load_settings({}).theme == "dark"
    (tmp_path / "state" / "divergraph").mkdir(parents=True)
    (tmp_path / "state" / "divergraph" / "theme").write_text("contrast\n")
    assert load_settings({}).theme == "contrast"
    (tmp_path / "state" / "divergraph" / "theme").write_bytes(b"\xff")
    assert load_settings({}).theme == "dark"
    (tmp_path / "config" / "divergraph").mkdir(parents=True)
    (tmp_path / "config" / "divergraph" / "divergraph.toml").write_text('[tui]\ntheme = "light"\n')
    assert load_settings({}).theme == "light"


@pytest.mark.slow
async def test_a_choice_that_cannot_be_kept_still_shows(make_app, made_store, settle, tmp_path):
    app: DivergraphApp = make_app(made_store)
    async with app.run_test() as pilot:
        await settle(pilot)
        app.settings.state_dir.parent.mkdir(exist_ok=True)
        app.settings.state_dir.write_text("a file where the folder should be")
        await pilot.press("T")
        await settle(pilot)
        assert app.theme == THEMES["light"]
        assert "light; not kept" in said(app)
