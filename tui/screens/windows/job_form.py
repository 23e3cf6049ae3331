"""The form of a command: its parameters as fields, the equal command line below."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.screen import ModalScreen
from textual.suggester import Suggester, SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Static

from divergraph.text.printable import printable
from tui.jobs.forms import YES, FormField, FormKind, JobForm
from tui.keys import KeyScope, bindings
from tui.messages import ask
from tui.query_words import longest_start
from tui.screens.windows.overlays import Window
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.form_fields import ChoiceField, PathSuggester, paths_that_begin
from tui.widgets.plain_input import PlainInput

_OFFERED = 8
"""Paths that are listed when several begin alike."""


class StartButton(Static, can_focus=True):
    """Starts the job, by enter or a click."""

    BINDINGS = [("enter", "press", "start the job")]  # noqa: RUF012 - the framework's form

    class Pressed(Message):
        """The job is to be started."""

    def action_press(self) -> None:
        """Start."""
        self.post_message(self.Pressed())

    def on_click(self) -> None:
        """Start."""
        self.action_press()


class JobFormWindow(ModalScreen[tuple[str, ...] | None]):
    """Gives the words of the command line, behind the program's name; escape gives None."""

    BINDINGS = bindings(KeyScope.JOB_FORM)
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (30, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        glyphs: Glyphs,
        form: JobForm,
        store: str,
        texts: Mapping[str, str] | None = None,
        runs: Sequence[str] = (),
    ) -> None:
        super().__init__(classes="-ascii" if glyphs.name == "ascii" else "")
        self._glyphs, self._form, self._store, self._runs = glyphs, form, store, runs
        self._given = dict(texts or {})
        self._wrong: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """The groups of fields; what the field in focus means; the command line."""
        with Window(classes="window"):
            with VerticalScroll(id="form-fields", can_focus=False):
                for heading, fields in self._form.groups.items():
                    yield Static(heading, classes="form-heading", markup=False)
                    for field in fields:
                        with Horizontal(classes="form-row"):
                            yield Static(self._label(field), classes="form-label", markup=False)
                            yield self._widget(field)
                        yield Static("", id=f"wrong-{field.name}", classes="wrong", markup=False)
            yield Static("", id="form-help", markup=False)
            yield Static("", id="form-command", markup=False)
            yield StartButton("start", id="form-start", markup=False)

    def _label(self, field: FormField) -> Content:
        mark = ("* ", theme.LINKED) if field.needed else ("  ", "")
        return Content.assemble(mark, printable(field.label))

    def _widget(self, field: FormField) -> Widget:
        text = self._given.get(field.name, "")
        name = f"field-{field.name}"
        if field.kind is FormKind.FLAG:
            return ChoiceField(("", YES), text, "no", id=name)
        if field.kind is FormKind.CHOICE:
            return ChoiceField(field.choices, text or field.default, self._glyphs.dash, id=name)
        suggester: Suggester | None = None
        if field.kind is FormKind.PATH:
            suggester = PathSuggester()
        elif field.kind is FormKind.RUN and self._runs:
            suggester = SuggestFromList(self._runs)
        input_field = PlainInput(
            text, field.example, compact=True, suggester=suggester, select_on_focus=False, id=name
        )
        input_field.cursor_blink = False
        return input_field

    def on_mount(self) -> None:
        """Name the window; stand in the first field that needs a word."""
        window = self.query_one(Window)
        window.name_pane(self._form.name)
        window.border_subtitle = Content("f5 starts, tab next, ctrl+n completes, esc closes")
        empty = (field for field in self._form.fields if field.needed and not self._text(field))
        first = next(empty, None)
        start = f"#field-{first.name}" if first is not None else "#form-start"
        self.query_one(start).focus()
        self._draw_command()

    def texts(self) -> dict[str, str]:
        """What stands in the fields, those left as they are not included."""
        texts = {field.name: self._text(field) for field in self._form.fields}
        return {name: text for name, text in texts.items() if text}

    def _text(self, field: FormField) -> str:
        widget = self.query_one(f"#field-{field.name}")
        match widget:
            case ChoiceField():
                return "" if widget.value == field.default else widget.value
            case Input():
                return widget.value
        raise AssertionError(widget)

    @on(Input.Changed)
    @on(ChoiceField.Chosen)
    def _changed(self) -> None:
        for name in list(self._wrong):
            self._judge(self._field(name))
        self._draw_command()

    @on(DescendantFocus)
    def _say_what_it_is(self, event: DescendantFocus) -> None:
        field = self._field_of(event.widget)
        self._help(field.help if field is not None else self._form.command.get_short_help_str(200))

    def on_descendant_blur(self) -> None:
        """A field that was left says what is wrong with it, unless it is empty still."""
        for field in self._form.fields:
            if self._text(field):
                self._judge(field)

    @on(Input.Submitted)
    def _next(self) -> None:
        self.focus_next()

    @on(StartButton.Pressed)
    def _pressed(self) -> None:
        self.action_start()

    def action_start(self) -> None:
        """Give the command line, or go to the first field that is wrong."""
        problems = self._form.problems(self.texts())
        for field in self._form.fields:
            self._show_wrong(field.name, problems.get(field.name, ""))
        if problems:
            self.query_one(f"#field-{next(iter(problems))}").focus()
        else:
            self.dismiss(tuple(self._form.words(self.texts(), self._store)))

    def action_complete(self) -> None:
        """Complete the path in the field, or list those that begin so."""
        field = self._field_of(self.focused)
        if field is not None and isinstance(self.focused, Input):
            name, text = field.name, self.focused.value
            if field.kind is FormKind.PATH:
                ask(
                    self,
                    "complete",
                    lambda: paths_that_begin(text),
                    lambda paths: self._show_completed(name, text, paths),
                )
            elif field.kind is FormKind.RUN:
                matching = [run for run in self._runs if run.startswith(text)]
                self._show_completed(name, text, matching)

    def _show_completed(self, name: str, text: str, words: Sequence[str]) -> None:
        """Complete *text* in the field *name*, or list the *words* that begin so."""
        input_field = self.query_one(f"#field-{name}", Input)
        if input_field.value != text:
            return  # the user typed on
        if not words:
            self._help("nothing begins so")
            return
        start = longest_start(words)
        if len(start) > len(text):
            input_field.value = start
            input_field.cursor_position = len(start)
        if len(words) > 1:
            names = [word.rstrip("/").rpartition("/")[2] for word in words[:_OFFERED]]
            more = len(words) - _OFFERED
            self._help("  ".join(names) + (f"  and {more} more" if more > 0 else ""))

    def _judge(self, field: FormField) -> None:
        self._show_wrong(field.name, field.problem(self._text(field)))

    def _show_wrong(self, name: str, problem: str) -> None:
        if problem:
            self._wrong[name] = problem
        else:
            self._wrong.pop(name, None)
        label = self.query_one(f"#wrong-{name}", Static)
        label.set_class(bool(problem), "-said")
        label.update(Content.styled(f"{self._glyphs.bad} {printable(problem)}", theme.ERROR))

    def _field(self, name: str) -> FormField:
        return next(field for field in self._form.fields if field.name == name)

    def _field_of(self, widget: Widget | None) -> FormField | None:
        name = (widget.id or "") if widget is not None else ""
        return self._field(name.removeprefix("field-")) if name.startswith("field-") else None

    def _help(self, text: str) -> None:
        self.query_one("#form-help", Static).update(Content.styled(printable(text), theme.QUIET))

    def _draw_command(self) -> None:
        words = ["divergraph", *self._form.words(self.texts(), self._store)]
        line = printable(shlex.join(words))
        prompt = "on the server: " if self._form.elsewhere else "$ "
        content = Content.assemble((prompt, theme.LINKED), line)
        self.query_one("#form-command", Static).update(content)
