"""Answers that fit into what an agent can read at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from divergraph.present.json.shapes import Json, json_text
from divergraph.text.printable import printable_json
from graphstore.errors import InputError

MOST_CHARACTERS = 40_000
"""Some 12 thousand tokens; clients refuse, or ask about, answers twice as long."""
_MOST_ENTRIES = 512
_NAMED = 6


def bounded_answer(shape: Mapping[str, Json], most: int = MOST_CHARACTERS) -> tuple[str, str]:
    """*shape* as the command line prints it and "", or with the first entries of its lists only,
    and what was cut.

    Raises:
        InputError: it is too long with one entry in each list.
    """
    text, entries, cut = _document(shape), _MOST_ENTRIES, _Cut({})
    while len(text) > most:
        if not entries:
            raise InputError("the answer is too long to be read", hint="ask for less")
        cut = _Cut({})
        text = _document(cut.shortened(dict(shape), entries))
        entries = entries * 3 // 4
    return text, cut.said()


def _document(shape: Mapping[str, Any]) -> str:
    return f"{printable_json(json_text(shape), ascii_only=False)}\n"


class _Cut:
    """What was cut: how many entries the lists of a name have, and are shown."""

    def __init__(self, found: dict[str, tuple[int, int]]) -> None:
        self._found = found

    def shortened(self, value: Any, entries: int, place: str = "") -> Any:
        """*value* with lists of so many *entries* at most."""
        if isinstance(value, dict):
            return {
                name: self.shortened(each, entries, f"{place}.{name}".lstrip("."))
                for name, each in value.items()
            }
        if not isinstance(value, list | tuple):
            return value
        if len(value) > entries:
            longest = max(len(value), self._found.get(place, (0, 0))[0])
            self._found[place] = longest, entries
        return [self.shortened(each, entries, place) for each in value[:entries]]

    def said(self) -> str:
        """It, in a sentence; "" if nothing was."""
        if not self._found:
            return ""
        places = list(self._found.items())
        named = [f"{place} (up to {have}) show {shown}" for place, (have, shown) in places[:_NAMED]]
        rest = f", and {len(places) - _NAMED} other lists" if len(places) > _NAMED else ""
        return f"cut: {', '.join(named)}{rest}; ask for less to see the rest"
