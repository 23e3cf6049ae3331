"""What the user may set: marks, theme and keys, in ``divergraph.toml``."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import ConfigError
from graphstore.private_folder import private_folder
from tui.keys import BY_ID
from tui.style.glyphs import ASCII, ENVIRONMENT_SWITCH, SETS, UNICODE, Glyphs
from tui.terminal.pixels import ENVIRONMENT_SWITCH as PIXELS_SWITCH
from tui.terminal.pixels import PixelProtocol, PixelTerminal, pixel_terminal

THEMES = {
    "dark": "divergraph-dark",
    "light": "divergraph-light",
    "contrast": "divergraph-contrast",
}
_AUTO = "auto"
_CHOSEN = "theme"
"""The file in the state folder with the theme that was chosen on screen."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one session. Exports go to ``export_dir``; what was copied is also
    written to a file in ``state_dir``, since no terminal confirms a copy."""

    glyphs: Glyphs = UNICODE
    theme: str = "dark"
    pixels: PixelTerminal | None = None
    keymap: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    export_dir: Path = Path()
    state_dir: Path = Path()


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The user's settings; an environment switch goes before the file.

    Raises :class:`ConfigError` for a file that is no TOML, and for a wrong key or value.
    """
    import platformdirs

    path = platformdirs.user_config_path("divergraph") / "divergraph.toml"
    table = _read(path)
    ui = _table(path, table, "tui")
    _check_names(path, ui, ("glyphs", "theme", "pixels"), "setting")
    name = environment.get(ENVIRONMENT_SWITCH) or str(ui.get("glyphs", _usual(environment)))
    state = platformdirs.user_state_path("divergraph")
    theme = str(ui.get("theme") or chosen_theme(state))
    _check_names(path, [name], SETS, "set of glyphs")
    pixels = environment.get(PIXELS_SWITCH) or str(ui.get("pixels", _AUTO))
    _check_names(path, [theme], THEMES, "theme")
    _check_names(path, [pixels], (_AUTO, *PixelProtocol), "way to send pictures")
    keymap = _table(path, table, "keys")
    _check_names(path, keymap, BY_ID, "key id")
    return Settings(
        glyphs=SETS[name],
        theme=theme,
        pixels=pixel_terminal(environment, pixels),
        keymap={key: str(value) for key, value in keymap.items()},
        path=path,
        export_dir=Path.cwd(),
        state_dir=state,
    )


def _usual(environment: Mapping[str, str]) -> str:
    """The glyphs for the locale. Who says none has a terminal of today, in a container mostly."""
    names = (environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, names), "")
    has_unicode = not locale or "utf8" in locale.lower().replace("-", "")
    return (UNICODE if has_unicode else ASCII).name


def chosen_theme(state: Path) -> str:
    """The theme that was chosen on screen last; the dark one if none was."""
    try:
        chosen = (state / _CHOSEN).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "dark"
    return chosen if chosen in THEMES else "dark"


def keep_theme(name: str, state: Path) -> None:
    """Remember the theme *name* for later sessions.

    Raises:
        OSError: it cannot be written.
    """
    private_folder(state)
    (state / _CHOSEN).write_text(f"{name}\n", encoding="utf-8")


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from error


def _table(path: Path, table: Mapping[str, object], name: str) -> dict[str, object]:
    part = table.get(name, {})
    if not isinstance(part, dict):
        raise ConfigError(f"[{name}] must be a table", where=str(path))
    return part


def _check_names(path: Path, names: Iterable[str], choices: Iterable[str], what: str) -> None:
    choices = list(choices)
    for name in names:
        if name not in choices:
            close_matches = difflib.get_close_matches(name, choices, n=1)
            hint = (
                f"did you mean {close_matches[0]}?"
                if close_matches
                else f"known: {', '.join(choices)}"
            )
            raise ConfigError(f"no {what} named {name!r}", where=str(path), hint=hint)
