"""Answers that fit into what an agent can read at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from divergraph.present.json_text import Json, json_text
from divergraph.text.printable import printable_json
from graphstore.errors import InputError

MOST_CHARACTERS = 40_000
"""Some 12 thousand tokens; clients refuse, or ask about, answers twice as long."""
_MOST_ENTRIES = 512
_MOST_OF_SENTENCE = 2000
_NAMED = 6
_LINE = 10
"""Roughly the characters around an entry: line end, indentation, quotes, comma."""


def bounded_answer(shape: Mapping[str, Json], most: int = MOST_CHARACTERS) -> tuple[str, str]:
    """*shape* as the command line prints it and "", or with the first entries of its longest
    lists only, and what was cut.

    Raises:
        InputError: it is too long with one entry in each list.
    """
    text, cut = _document(shape), _Cut()
    kept: Any = shape
    while len(text) > most:
        kept = cut.shortened(kept)
        text = _document(kept)
        if len(text) > most and not cut.allow_less(kept):
            raise InputError("the answer is too long to be read", hint="ask for less")
    return text, cut.said()


def bounded_sentence(text: str) -> str:
    """*text*, of an error, without its middle if that is as long as what an agent gave."""
    half = _MOST_OF_SENTENCE // 2
    return text if len(text) <= _MOST_OF_SENTENCE else f"{text[:half]} ... {text[-half:]}"


def _document(shape: Mapping[str, Any]) -> str:
    return f"{printable_json(json_text(shape), ascii_only=False)}\n"


class _Cut:
    """How many entries the lists at a place (the names that lead there) have, and may have."""

    def __init__(self) -> None:
        self._had: dict[str, int] = {}
        self._allowed: dict[str, int] = {}

    def shortened(self, value: Any, place: str = "") -> Any:
        """*value* with lists as long as is allowed."""
        if isinstance(value, Mapping):
            return {
                name: self.shortened(each, f"{place}.{name}".lstrip("."))
                for name, each in value.items()
            }
        if not isinstance(value, list | tuple):
            return value
        allowed = self._allowed.setdefault(place, _MOST_ENTRIES)
        self._had[place] = max(len(value), self._had.get(place, 0))
        return [self.shortened(each, f"{place}[]") for each in value[:allowed]]

    def allow_less(self, value: Any) -> bool:
        """Allow a quarter less at the place where most is written; False if nothing can be less.

        What holds other lists is cut before these: a path stays whole as long as it can.
        """
        weights: dict[str, int] = {}
        longest: dict[str, int] = {}
        _weigh(value, "", weights, longest)
        places = [place for place, length in longest.items() if length > 1]
        if not places:
            return False
        heaviest = max(places, key=lambda place: weights[place])
        self._allowed[heaviest] = longest[heaviest] * 3 // 4
        return True

    def said(self) -> str:
        """It, in a sentence; "" if nothing was cut."""
        cut = [
            f"{place.replace('[]', '')} (up to {had}) show {self._allowed[place]}"
            for place, had in self._had.items()
            if had > self._allowed[place]
        ]
        if not cut:
            return ""
        rest = f", and {len(cut) - _NAMED} other lists" if len(cut) > _NAMED else ""
        return f"cut: {', '.join(cut[:_NAMED])}{rest}; ask for less to see the rest"


def _weigh(value: Any, place: str, weights: dict[str, int], longest: dict[str, int]) -> int:
    """Roughly the characters of *value*; fills in those of the lists at each place, and how many
    entries the longest has."""
    if isinstance(value, dict):
        return sum(
            _LINE + len(name) + _weigh(each, f"{place}.{name}".lstrip("."), weights, longest)
            for name, each in value.items()
        )
    if not isinstance(value, list):
        return len(str(value))
    weight = sum(_LINE + _weigh(each, f"{place}[]", weights, longest) for each in value)
    weights[place] = weights.get(place, 0) + weight
    longest[place] = max(len(value), longest.get(place, 0))
    return weight
