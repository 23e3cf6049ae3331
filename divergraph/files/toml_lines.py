"""In which line of a TOML file a key is: its reader does not tell."""

from __future__ import annotations

import re
import tomllib


def line_of(text: str, key: str, table: tuple[str, ...]) -> int | None:
    """The line (from 1) that sets *key* in *table*, or the table's header if *key* is empty; None
    for a spelling that is not recognised."""
    current: tuple[str, ...] = ()
    name = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[]=.]""")
    for number, line in enumerate(text.splitlines(), 1):
        if key and current == table and name.match(line):
            return number
        if re.match(r"\s*\[", line):
            current = _header(line)
            if not key and current[: len(table)] == table:
                return number
    return None


def _header(line: str) -> tuple[str, ...]:
    """The names in a table's header; empty if the line is not one."""
    try:
        inner = tomllib.loads(line)
    except tomllib.TOMLDecodeError:  # a line of an array over several lines
        return ()
    names: list[str] = []
    while isinstance(inner, dict) and inner:
        (name, inner), *_ = inner.items()
        names.append(name)
    return tuple(names)
