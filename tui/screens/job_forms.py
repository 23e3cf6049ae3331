"""A view from which jobs are started: it chooses a command, shows its form, starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual.content import Content

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.jobs.forms import form_of, form_titles, texts_of
from tui.jobs.watched import JobLook
from tui.screens.base import ViewScreen
from tui.screens.windows.choose_command import ChooseCommandOverlay
from tui.screens.windows.job_form import JobFormWindow


class JobStarter(ViewScreen):
    """A view that opens forms."""

    def action_new(self) -> None:
        """Choose a command and fill in its form."""

        def choose(titles: Mapping[str, str]) -> None:
            overlay = ChooseCommandOverlay(self.owner.settings.glyphs, titles)
            self.app.push_screen(overlay, chosen)

        def chosen(name: str | None) -> None:
            if name is not None:
                self.open_form(name)

        # This loads the commands.
        self.ask("form", lambda: form_titles(self.owner.watched.elsewhere), choose)

    def open_form(self, name: str, texts: Mapping[str, str] | None = None) -> None:
        """Show the form of the command *name* with *texts* in it, about the run that is open."""
        session = self.owner.session
        is_meant = session.kind == "run" or name == "export"  # which takes a graph, too
        run_texts = {"run": session.target} if session.target and is_meant else {}
        self._show_form(name, lambda: dict(texts) if texts is not None else run_texts)

    def open_form_again(self, words: Sequence[str]) -> None:
        """Show the form of the command line *words*, as it was filled in for it."""
        self._show_form(words[0], lambda: texts_of(words))

    def _show_form(self, name: str, texts: Callable[[], Mapping[str, str]]) -> None:
        """Show a form, with what stands in it at first and the runs there are."""
        glyphs, session = self.owner.settings.glyphs, self.owner.session

        def make() -> JobFormWindow:
            form = form_of(name, self.owner.watched.elsewhere)
            field_names = {field.name for field in form.fields}
            try:
                runs = [run.name for run in session.targets()[0]]
            except DivergraphError:  # a store that is not there yet, or gone, has none
                runs = []
            field_texts = {key: text for key, text in texts().items() if key in field_names}
            return JobFormWindow(glyphs, form, session.url, field_texts, runs)

        self.ask("form", make, lambda window: self.app.push_screen(window, self._filled_in))

    def _filled_in(self, words: tuple[str, ...] | None) -> None:
        if words is not None:
            self.owner.start_job(words)

    def show_printed(self, title: str, look: JobLook) -> None:
        """Show what a job printed in a window."""

        def show(log: str) -> None:
            lines = [printable(line.expandtabs(2)) for line in log.splitlines()]
            text = Content("\n".join(lines or ["nothing printed yet"]))
            self.owner.show_text(title, lambda _: text)

        self.ask("log", lambda: self.owner.watched.log(look.job), show)
