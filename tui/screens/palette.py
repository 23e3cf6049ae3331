"""Entries of the command palette: the keys' commands, and ops by name."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from divergraph.ask.question import Question, help_of
from divergraph.ask.registry import all_questions
from divergraph.text.printable import printable
from tui.keys import KeyScope
from tui.owner import Owner
from tui.screens.asked_question import ask

SHOWN_OPS = 30
_SCOPES = (KeyScope.EVERYWHERE, KeyScope.OPS, KeyScope.PATHS, KeyScope.PART)
_OF_ONE_VIEW = (KeyScope.JOBS, KeyScope.START)


class PaletteProvider(Provider):
    """What can be done in the present view, and the ops of the present run or graph."""

    @property
    def _owner(self) -> Owner:
        return cast("Owner", self.app)

    async def discover(self) -> Hits:
        """The commands, before anything is typed."""
        for title, action, words in self._commands():
            run = partial(self.screen.run_action, action)
            yield DiscoveryHit(title, run, help=words)
        for title, kind in self._questions().items():
            yield DiscoveryHit(title, partial(ask, self._owner, kind), help=help_of(kind))

    async def search(self, query: str) -> Hits:
        """Commands and ops that fit *query*: of many ops those it says most of."""
        matcher = self.matcher(query)
        for title, action, words in self._commands():
            score = matcher.match(title)
            if score > 0:
                run = partial(self.screen.run_action, action)
                yield Hit(score, matcher.highlight(title), run, help=words)
        for title, kind in self._questions().items():
            score = matcher.match(title)
            if score > 0:
                opening = partial(ask, self._owner, kind)
                yield Hit(score, matcher.highlight(title), opening, help=help_of(kind))
        ops = self._owner.session.known_rows()
        for place, op in enumerate(fitting(query, () if ops is None else ops.ids)):
            label, opened = printable(op), partial(self._owner.open_op, op)
            yield Hit(0.9 - place / 1000, Content(label), opened, text=label, help="op")

    def _commands(self) -> list[tuple[str, str, str]]:
        return [
            (key.help[:1].upper() + key.help[1:], key.action, f"key {key.shown}")
            for key in self._owner.keys
            if self._is_meant(key.scope) and self._runs_here(key.action)
        ]

    @staticmethod
    def _questions() -> dict[str, type[Question[Any]]]:
        """The declared questions by what they are called here."""
        return {f"Ask: {name}": kind for name, kind in all_questions().items()}

    def _is_meant(self, scope: KeyScope) -> bool:
        of_view = getattr(self.screen, "SCOPES", ())
        return scope in _SCOPES or (scope in _OF_ONE_VIEW and scope in of_view)

    def _runs_here(self, action: str) -> bool:
        name = action.partition("(")[0]
        return not name.startswith("app.") and hasattr(self.screen, f"action_{name}")


def fitting(query: str, names: Iterable[str]) -> list[str]:
    """Of *names* those that hold every word of *query*, at most ``SHOWN_OPS`` of them.

    Those that end in the last word come first, then short ones: *query* says most of them.
    """
    words = query.casefold().split()
    matches = [name for name in names if all(word in name.casefold() for word in words)]

    def distance(name: str) -> tuple[bool, int]:
        return not name.casefold().endswith(tuple(words[-1:])), len(name)

    return heapq.nsmallest(SHOWN_OPS, matches, key=distance)
