"""The fields of a form: a line of text, a choice, a box to tick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.suggester import Suggester
from textual.widgets import Checkbox, Static

from divergraph.text.printable import printable
from tui.keys import KeyScope, bindings
from tui.style import theme

_LISTED = 2000
"""Entries of a folder that completion looks at."""


class PlainCheckbox(Checkbox):
    """A box any terminal can draw."""

    BUTTON_LEFT, BUTTON_INNER, BUTTON_RIGHT = "[", "x", "]"


class ChoiceField(Static, can_focus=True):
    """One of a few words; left, right and a click change it. *nothing* stands for an empty one."""

    BINDINGS = bindings(KeyScope.CHOICE)
    value: reactive[str] = reactive("")

    class Chosen(Message):
        """Another word was chosen."""

    def __init__(
        self,
        choices: Sequence[str],
        value: str,
        nothing: str,
        *,
        id: str | None = None,  # noqa: A002 - the framework's name for it
    ) -> None:
        super().__init__(id=id, markup=False)
        self._choices, self._nothing = choices, nothing
        self.set_reactive(ChoiceField.value, value if value in choices else choices[0])

    def render(self) -> Content:
        """All the words in a row, the chosen one marked."""
        parts: list[tuple[str, str]] = []
        for choice in self._choices:
            chosen = choice == self.value
            text = printable(choice) or self._nothing
            parts.append(
                (f"[{text}]" if chosen else f" {text} ", theme.LINKED if chosen else theme.QUIET)
            )
        return Content.assemble(*parts)

    def action_choose(self, direction: int) -> None:
        """Take the next choice, or the one before."""
        at = self._choices.index(self.value)
        self.value = self._choices[(at + direction) % len(self._choices)]

    def on_click(self) -> None:
        """Take the next choice."""
        self.action_choose(1)

    def watch_value(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())


class PathSuggester(Suggester):
    """Completes paths; asked in a thread, since a folder may lie on a slow disk."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The first path that begins so."""
        import asyncio

        paths = await asyncio.to_thread(paths_that_begin, value) if value else []
        return paths[0] if paths else None


def paths_that_begin(text: str) -> list[str]:
    """The paths that begin with *text*, folders with a slash at the end."""
    folder, slash, start = text.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}{slash}" or ".").expanduser().iterdir())[:_LISTED]
    except (OSError, RuntimeError, ValueError):  # no such folder, home or name
        return []
    return [
        f"{folder}{slash}{entry.name}" + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(start) and (start.startswith(".") or entry.name[0] != ".")
    ]
