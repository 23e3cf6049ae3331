"""The themes: colours that can be read, chosen on screen and kept."""

import pytest
from browsing import said
from textual.color import Color

from tui.app import DivergraphApp
from tui.settings import THEMES, chosen_theme, load_settings
from tui.style import theme

LEAST = {"dark": 4.5, "light": 4.5, "contrast": 7.0}
"""WCAG's ratios for text, the enhanced one for high contrast."""
KNOWN = {"dark": theme.DARK, "light": theme.LIGHT, "contrast": theme.CONTRAST}


@pytest.mark.parametrize("name", THEMES)
def test_every_text_can_be_read(name):
    known = KNOWN[name]
    assert known.name == THEMES[name]
    for variable, colour in known.variables.items():
        if variable in ("border-blurred", "state-broken-background"):
            continue
        behind = known.background
        if variable == "state-broken":  # white on red, and bold
            behind = known.variables["state-broken-background"]
        assert contrast(colour, behind) >= LEAST[name], variable


def contrast(one: str, other: str) -> float:
    def light(text: str) -> float:
        parts = [part / 255 for part in Color.parse(text).rgb]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


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
