"""The field a Cypher text is typed into: completion, history, the wrong place chosen."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from tui.keys import KeyScope, bindings
from tui.terminal.only_text import only_text
from tui.widgets.titled import Titled


class CypherEditor(TextArea, Titled):
    """Several lines of Cypher. ``complete`` gives what may stand at the end of a text."""

    # The framework takes component classes along first bases, so its own stands first.

    BINDINGS = bindings(KeyScope.EDITOR)

    class Asked(Message):
        """The text is to be asked; or only its plan."""

        def __init__(self, *, plan: bool) -> None:
            super().__init__()
            self.plan = plan

    class Past(Message):
        """An earlier (-1) or later (1) question is wanted."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    class KeepAsked(Message):
        """The text is to be kept under a name."""

    class Offered(Message):
        """Several words may stand here."""

        def __init__(self, words: tuple[str, ...]) -> None:
            super().__init__()
            self.words = words

    class Left(Message):
        """The user wants to go on in the list."""

    def __init__(self, complete: Callable[[str], tuple[str, tuple[str, ...]]]) -> None:
        super().__init__(
            compact=True,
            highlight_cursor_line=False,
            placeholder="a question in Cypher; ctrl+n completes words",
        )
        self._complete = complete
        self.cursor_blink = False

    def on_resize(self) -> None:
        """Fit the title."""
        self.fit_title()

    def render_line(self, y: int) -> Strip:
        """One line; nothing of a pasted text acts on the terminal."""
        strip = super().render_line(y)
        if strip.text.isprintable():
            return strip
        return Strip(Segment(only_text(text), style) for text, style, _ in strip)

    def choose(self, start: int, end: int) -> None:
        """Select the characters from *start* to *end*."""
        self.selection = Selection(self._at(start), self._at(max(end, start + 1)))

    def _at(self, offset: int) -> tuple[int, int]:
        before = self.text[: max(0, offset)]
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    def action_ask(self) -> None:
        """Ask the text."""
        self.post_message(self.Asked(plan=False))

    def action_plan(self) -> None:
        """Ask how it would be answered."""
        self.post_message(self.Asked(plan=True))

    def action_past(self, direction: int) -> None:
        """Go through the questions asked before."""
        self.post_message(self.Past(direction))

    def action_keep(self) -> None:
        """Keep the text under a name."""
        self.post_message(self.KeepAsked())

    def action_leave(self) -> None:
        """Leave the field."""
        self.post_message(self.Left())

    def action_complete(self) -> None:
        """Complete the word before the cursor as far as it is the only one; else offer them."""
        row, column = self.cursor_location
        before = "\n".join([*self.text.split("\n")[:row], self.document.get_line(row)[:column]])
        added, words = self._complete(before)
        if added:
            self.insert(added)
        if len(words) != 1:
            self.post_message(self.Offered(words))
