"""What the user may set: marks, theme and keys, in ``divergraph.toml``."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import ConfigError
from tui.keys import BY_ID
from tui.style.glyphs import ENVIRONMENT_SWITCH, SETS, UNICODE, Glyphs

THEMES = {"dark": "divergraph-dark", "light": "divergraph-light"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one session. Exports go to ``export_dir``; what was copied is also
    written to a file in ``state_dir``, since no terminal confirms a copy."""

    glyphs: Glyphs = UNICODE
    theme: str = "dark"
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
    _known(path, ui, ("glyphs", "theme"), "setting")
    name = environment.get(ENVIRONMENT_SWITCH) or str(ui.get("glyphs", UNICODE.name))
    theme = str(ui.get("theme", "dark"))
    _known(path, [name], SETS, "set of glyphs")
    _known(path, [theme], THEMES, "theme")
    keymap = _table(path, table, "keys")
    _known(path, keymap, BY_ID, "key id")
    return Settings(
        glyphs=SETS[name],
        theme=theme,
        keymap={key: str(value) for key, value in keymap.items()},
        path=path,
        export_dir=Path.cwd(),
        state_dir=platformdirs.user_state_path("divergraph"),
    )


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


def _known(path: Path, names: Iterable[str], known: Iterable[str], what: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"no {what} named {name!r}", where=str(path), hint=hint)
