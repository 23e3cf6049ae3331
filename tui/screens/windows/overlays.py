"""Windows over a view: keys, one op in full, what to copy, shell commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from tui.keys import Key, KeyScope, bindings, by_scope
from tui.render.hanging import hung
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows
from tui.widgets.text_pane import Build, TextPane
from tui.widgets.titled import Titled


class Window(Titled, Container):
    """The frame."""

    def on_resize(self) -> None:
        """Fit the title."""
        self.fit_title()


class Overlay(ModalScreen[str | None]):
    """A window over the view, closed by escape; its result is a text to copy, or None."""

    BINDINGS = bindings(KeyScope.OVERLAY)
    foot = "esc closes"
    """What stands in the lower border: the keys."""

    def __init__(self, glyphs: Glyphs, title: str) -> None:
        super().__init__(classes="-ascii" if glyphs.name == "ascii" else "")
        self.glyphs = glyphs
        self.window_title = title

    def compose(self) -> ComposeResult:
        """The window around its content."""
        with Window(classes="window"):
            yield self.content()

    def on_mount(self) -> None:
        """Name the window."""
        window = self.query_one(Window)
        window.name_pane(self.window_title)
        window.border_subtitle = Content(self.foot)

    def content(self) -> Widget:
        """What the window shows."""
        raise NotImplementedError


class ChoiceOverlay(Overlay):
    """A list; the result is what stands in *results* at the place of the row that is opened."""

    empty = ""
    """What stands in place of no row."""

    def __init__(
        self,
        glyphs: Glyphs,
        title: str,
        columns: Sequence[ListColumn],
        rows: Sequence[Sequence[Cell]],
        results: Sequence[str | None],
    ) -> None:
        super().__init__(glyphs, title)
        self._rows, self._results = FixedRows(columns, rows), results

    def content(self) -> Widget:
        """The list."""
        return RowList(self._rows, self.glyphs, empty=self.empty)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Choose the row."""
        self.dismiss(self._results[event.index])


class TextOverlay(Overlay):
    """A window with a long text, for instance one op in full."""

    def __init__(self, glyphs: Glyphs, title: str, build: Build) -> None:
        super().__init__(glyphs, title)
        self._build = build

    def content(self) -> Widget:
        """The text."""
        return TextPane()

    def on_mount(self) -> None:
        """Fill in the text."""
        pane = self.query_one(TextPane)
        pane.show(self._build)
        pane.focus()


class LogOverlay(ChoiceOverlay):
    """The shell commands that show what was on screen, newest first; enter copies one."""

    empty = "nothing was asked yet"

    def __init__(self, glyphs: Glyphs, commands: Sequence[str]) -> None:
        newest = commands[::-1]
        column = ListColumn("command", "command", 20, sortable=False)
        title = "The same from the shell (enter copies)"
        super().__init__(glyphs, title, (column,), [(Cell(text),) for text in newest], newest)


class YankOverlay(ChoiceOverlay):
    """What can be copied, each under its letter."""

    BINDINGS = bindings(KeyScope.YANK)

    def __init__(self, glyphs: Glyphs, choices: Mapping[str, tuple[str, str]]) -> None:
        self._choices = choices
        columns = (
            ListColumn("key", "key", 3, sortable=False),
            ListColumn("what", "what", 9, sortable=False),
            ListColumn("text", "text", 20, 200, sortable=False),
        )
        rows = [
            (Cell(letter, "linked"), Cell(what), Cell(text.replace("\t", "  ")))
            for what, (letter, text) in choices.items()
        ]
        super().__init__(glyphs, "Copy", columns, rows, [text for _, text in choices.values()])

    def action_copy(self, what: str) -> None:
        """Copy one of the choices."""
        if what in self._choices:
            self.dismiss(self._choices[what][1])


def help_text(
    glyphs: Glyphs,
    table: Sequence[Key],
    scopes: Sequence[KeyScope],
    unavailable: Mapping[str, str],
    fields: Sequence[tuple[str, str]],
    settings: str,
    width: int,
) -> Content:
    """The ``?`` page: keys by where they work, those of *scopes* first, marks, filter.

    ``unavailable`` says by id why a key does nothing at present. No line is wider than *width*.
    """
    groups = by_scope(table)
    ordered = [scope for scope in scopes if scope in groups]
    ordered += [scope for scope in groups if scope not in ordered]
    lines: list[Content] = []
    for scope in ordered:
        lines += [Content.styled(scope.value.capitalize(), theme.HEADING)]
        for key in groups[scope]:
            lines += _help_lines(key, unavailable.get(key.id), width)
        lines.append(Content(""))
    lines += [*_marks(glyphs), Content(""), Content.styled("Filter", theme.HEADING)]
    for words in (
        "blank = and, | in a value = or, ! = not, * = any text, ~ = regular expression",
        "a bare word: the name, or an original's, contains it",
    ):
        lines += hung("  ", words, width)
    for name, words in fields:
        lines += hung(f"  {fit(name, 14, '')}", words, width)
    if settings:
        lines += [Content(""), *hung("Settings: ", settings, width, theme.QUIET, theme.QUIET)]
    return Content("\n").join(lines)


def _marks(glyphs: Glyphs) -> list[Content]:
    lines = [Content.styled("Marks", theme.HEADING)]
    for state, words in wording.STATE_WORDS.items():
        mark = (f"  {glyphs.state(state)} {fit(state.value, 16, '')}", theme.STATE_STYLES[state])
        lines.append(Content.assemble(mark, words))
    fused = (f"  {fit(glyphs.fused + 'n', 18, '')}", theme.FUSED)
    return [*lines, Content.assemble(fused, "one op made of n originals")]


def _help_lines(key: Key, why_not: str | None, width: int) -> list[Content]:
    head = f"  {fit(key.shown, 18, '')}"
    if why_not is None:
        return hung(head, key.help, width)
    pale = theme.FAINT
    return hung(head, f"{key.help} (not now: {why_not})", width, pale, pale)
