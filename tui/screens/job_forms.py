"""A view from which jobs are started: it chooses a command, shows its form, starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual import on, work
from textual.content import Content
from textual.message import Message

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.jobs.forms import JobForm, form_of, form_titles, texts_of
from tui.jobs.watched import JobLook
from tui.screens.base import ViewScreen
from tui.screens.windows.choose_command import ChooseCommandOverlay
from tui.screens.windows.job_form import JobFormWindow


class JobStarter(ViewScreen):
    """A view that opens forms."""

    class Titles(Message):
        """The commands, with what each does."""

        def __init__(self, titles: Mapping[str, str]) -> None:
            super().__init__()
            self.titles = titles

    class FormMade(Message):
        """A form, what stands in it at first, and the runs there are."""

        def __init__(self, form: JobForm, texts: Mapping[str, str], runs: Sequence[str]) -> None:
            super().__init__()
            self.form, self.texts, self.runs = form, texts, runs

    class LogRead(Message):
        """What a job printed, to be shown under *title*."""

        def __init__(self, title: str, text: str) -> None:
            super().__init__()
            self.title, self.text = title, text

    def action_new(self) -> None:
        """Choose a command and fill in its form."""
        self._ask_titles()

    @work(thread=True, exclusive=True, group="form", exit_on_error=False)
    def _ask_titles(self) -> None:
        titles = form_titles(self.owner.watched.elsewhere)  # loads the commands
        self.post_message(self.Titles(titles))

    @on(Titles)
    def _choose_command(self, event: Titles) -> None:
        overlay = ChooseCommandOverlay(self.owner.settings.glyphs, event.titles)
        self.app.push_screen(overlay, self._chosen)

    def _chosen(self, name: str | None) -> None:
        if name is not None:
            self.open_form(name)

    def open_form(self, name: str, texts: Mapping[str, str] | None = None) -> None:
        """Show the form of the command *name* with *texts* in it, about the run that is open."""
        session = self.owner.session
        is_meant = session.kind == "run" or name == "export"  # which takes a graph, too
        run_texts = {"run": session.target} if session.target and is_meant else {}
        self._make_form(name, lambda: dict(texts) if texts is not None else run_texts)

    def open_form_again(self, words: Sequence[str]) -> None:
        """Show the form of the command line *words*, as it was filled in for it."""
        self._make_form(words[0], lambda: texts_of(words))

    @work(thread=True, exclusive=True, group="form", exit_on_error=False)
    def _make_form(self, name: str, texts: Callable[[], Mapping[str, str]]) -> None:
        form = form_of(name, self.owner.watched.elsewhere)
        field_names = {field.name for field in form.fields}
        try:
            runs = [run.name for run in self.owner.session.targets()[0]]
        except DivergraphError:  # a store that is not there yet, or gone, has none
            runs = []
        field_texts = {key: text for key, text in texts().items() if key in field_names}
        self.post_message(self.FormMade(form, field_texts, runs))

    @on(FormMade)
    def _show_form(self, event: FormMade) -> None:
        owner = self.owner
        window = JobFormWindow(
            owner.settings.glyphs, event.form, owner.session.url, event.texts, event.runs
        )
        self.app.push_screen(window, self._filled_in)

    def _filled_in(self, words: tuple[str, ...] | None) -> None:
        if words is not None:
            self.owner.start_job(words)

    @work(thread=True, exclusive=True, group="log", exit_on_error=False)
    def show_printed(self, title: str, look: JobLook) -> None:
        """Show what a job printed in a window."""
        self.post_message(self.LogRead(title, self.owner.watched.log(look.job)))

    @on(LogRead)
    def _show_log(self, event: LogRead) -> None:
        lines = [printable(line.expandtabs(2)) for line in event.text.splitlines()]
        text = Content("\n".join(lines or ["nothing printed yet"]))
        self.owner.show_text(event.title, lambda _: text)
