"""The settings file and the environment switch."""

from pathlib import Path

import pytest

from graphstore.errors import ConfigError
from tui.settings import load_settings


@pytest.fixture
def settings_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "divergraph" / "divergraph.toml"
    path.parent.mkdir()
    return path


def test_without_a_file_there_are_the_defaults(settings_file):
    settings = load_settings({})
    assert (settings.glyphs.name, settings.theme, dict(settings.keymap)) == ("unicode", "dark", {})


def test_the_file_sets_marks_theme_and_keys(settings_file):
    settings_file.write_text(
        '[tui]\nglyphs = "ascii"\ntheme = "light"\n[keys]\n"list.down" = "down"\n'
    )
    settings = load_settings({})
    assert (settings.glyphs.name, settings.theme) == ("ascii", "light")
    assert settings.keymap == {"list.down": "down"}


def test_the_environment_goes_before_the_file(settings_file):
    settings_file.write_text('[tui]\nglyphs = "unicode"\n')
    assert load_settings({"DIVERGRAPH_GLYPHS": "ascii"}).glyphs.name == "ascii"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tui\n", "cannot be read"),
        ('[tui]\nglyphs = "asci"\n', "did you mean ascii?"),
        ('[tui]\nglyph = "ascii"\n', "did you mean glyphs?"),
        ('[tui]\ntheme = "blue"\n', "no theme named 'blue'"),
        ('[keys]\n"list.dwn" = "j"\n', "did you mean list.down?"),
        ('keys = "vim"\n', "must be a table"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(settings_file, text, said):
    settings_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings({})
    assert said in str(caught.value)
    assert str(settings_file) in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "glyphs"),
    [
        ({"LC_ALL": "C"}, "ascii"),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, "ascii"),
        ({"LANG": "ja_JP.eucJP"}, "ascii"),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, "unicode"),
        ({"LANG": "de_DE.utf8"}, "unicode"),
        ({"LC_ALL": "C", "DIVERGRAPH_GLYPHS": "unicode"}, "unicode"),
    ],
)
def test_the_locale_chooses_marks_it_can_show(
    settings_file: Path, environment: dict[str, str], glyphs: str
) -> None:
    assert load_settings(environment).glyphs.name == glyphs
