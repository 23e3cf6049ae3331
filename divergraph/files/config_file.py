"""The user's own defaults: ``config.toml`` in the folder of their configuration.

Files of other places are not read: a folder that came from somebody else must not change what
runs in it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from divergraph.files.os_errors import os_errors_told
from divergraph.files.toml_lines import line_of
from graphstore.errors import ConfigError

VARIABLE = "DIVERGRAPH_CONFIG"
"""Another file; empty: none."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What is set in the file at ``path``: nothing if there is none."""

    path: Path | None
    text: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> str | None:
        """Where runs are kept.

        Raises:
            ConfigError: it is no text.
        """
        store = self.content.get("store")
        if store is None or isinstance(store, str):
            return store
        raise self.error("store", f"store = {store!r} is no folder and no URL")

    def error(
        self, key: str, what: str, hint: str = "", table: tuple[str, ...] = ()
    ) -> ConfigError:
        """That *what* is wrong with *key* of *table*."""
        return ConfigError(what, where=self.place(key, table), hint=hint)

    def place(self, key: str, table: tuple[str, ...] = ()) -> str:
        """The file and line that set *key* of *table*."""
        line = line_of(self.text, key, table)
        return str(self.path) if line is None else f"{self.path}:{line}"


def config_path() -> Path | None:
    """Where the file is, or would be; None if none is wanted."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    import platformdirs

    return platformdirs.user_config_path("divergraph") / "config.toml"


def read_config() -> ConfigFile:
    """The file as it is now; one that :data:`VARIABLE` names must be there.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    path = config_path()
    if path is None or (VARIABLE not in os.environ and not path.exists()):
        return ConfigFile(path)
    try:
        with os_errors_told("the configuration cannot be read", path, kind=ConfigError):
            text = path.read_text(encoding="utf-8")
        return ConfigFile(path, text, tomllib.loads(text))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"not a TOML file: {error}", where=str(path)) from error
