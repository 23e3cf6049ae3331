"""Entries of the command palette: the keys' commands, and ops by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from divergraph.printable import printable
from tui.keys import Scope

if TYPE_CHECKING:
    from tui.app import DivergraphApp

SHOWN_OPS = 30
_SCOPES = (Scope.EVERYWHERE, Scope.OPS, Scope.WAYS, Scope.PART)


class PaletteProvider(Provider):
    """What can be done in the present view, and the ops of the present run or graph."""

    @property
    def _owner(self) -> DivergraphApp:
        return cast("DivergraphApp", self.app)

    async def discover(self) -> Hits:
        """The commands, before anything is typed."""
        for title, action, words in self._commands():
            run = partial(self.screen.run_action, action)
            yield DiscoveryHit(title, run, help=words)

    async def search(self, query: str) -> Hits:
        """Commands and ops that fit *query*, ops by any part of the name first."""
        matcher = self.matcher(query)
        for title, action, words in self._commands():
            score = matcher.match(title)
            if score > 0:
                run = partial(self.screen.run_action, action)
                yield Hit(score, matcher.highlight(title), run, help=words)
        for op in self._ops(query):
            shown = Content(printable(op))
            yield Hit(0.9, shown, partial(self._owner.open_op, op), text=printable(op), help="op")

    def _commands(self) -> list[tuple[str, str, str]]:
        return [
            (key.help[:1].upper() + key.help[1:], key.action, f"key {key.shown}")
            for key in self._owner.keys
            if key.scope in _SCOPES and self._runs_here(key.action)
        ]

    def _runs_here(self, action: str) -> bool:
        name = action.partition("(")[0]
        return not name.startswith("app.") and hasattr(self.screen, f"action_{name}")

    def _ops(self, query: str) -> list[str]:
        wanted = query.casefold().split()
        found: list[str] = []
        for row in self._owner.session.known_rows():
            name = row.id.casefold()
            if all(word in name for word in wanted):
                found.append(row.id)
                if len(found) >= SHOWN_OPS:
                    break
        return found
