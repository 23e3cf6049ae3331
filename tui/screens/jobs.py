"""View 8: jobs, which are processes: how far they are, what they met, how they ended."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content

from divergraph.jobs.background.shelf import BackgroundState
from graphstore.errors import DivergraphError
from tui.address import ScreenAddress
from tui.jobs.form_table import FORMS
from tui.jobs.job_rows import COLUMNS, job_row, present, problems_text, progress_text
from tui.jobs.watched import JobLook
from tui.keys import KeyScope, bindings
from tui.messages import OpenTarget
from tui.screens.job_forms import JobStarter
from tui.screens.windows.line_form import LineForm
from tui.style import words as wording
from tui.widgets.lines import KeyLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

_SECOND = 1.0


class JobsScreen(JobStarter):
    """The list of jobs; below it the one under the cursor."""

    VIEW = "jobs"
    CRUMB = "Jobs"
    SCOPES = (KeyScope.JOBS, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.JOBS)
    SHOWN_KEYS = (
        "jobs.new",
        "list.open",
        "jobs.log",
        "jobs.stop",
        "jobs.go_on",
        "jobs.again",
        "jobs.clear",
        "view.runs",
        "quit",
        "help",
    )

    def body(self) -> ComposeResult:
        """The list, the stages, the problems."""
        glyphs = self.owner.settings.glyphs
        yield RowList(FixedRows(()), glyphs, id="jobs", empty="no job yet; n starts one")
        yield TextPane(id="job-progress")
        yield TextPane(id="job-problems")

    def on_mount(self) -> None:
        """Name the panes; follow the jobs, and the clock while one runs."""
        super().on_mount()
        self.query_one("#jobs", RowList).name_pane("Jobs")
        self.query_one("#job-progress", TextPane).name_pane("Progress")
        self.query_one("#job-problems", TextPane).name_pane("Notes and problems")
        self._shown: tuple[JobLook, ...] = ()
        self._here = ""
        self.watch(self.owner, "looks", self._show)
        self.watch(self.owner, "job_trouble", self._show, init=False)
        self.set_interval(_SECOND, self._tick)
        self.query_one(RowList).focus()

    def show_address(self, address: ScreenAddress) -> None:
        """Look anew."""
        self.show_place()
        self.owner.look_at_jobs()

    def load(self, address: ScreenAddress) -> None:
        """Nothing of the run is shown."""

    def _tick(self) -> None:
        if self.is_current and any(look.runs for look in self._shown):
            self._show()

    def _show(self) -> None:
        """The jobs as they are now, the cursor on the same one as before."""
        owner, now = self.owner, present()
        self._shown = owner.looks
        rows = [job_row(look, owner.settings.glyphs, now) for look in self._shown]
        names = [look.job.id for look in self._shown]
        if owner.fresh_job in names:
            self._here, owner.fresh_job = owner.fresh_job, ""
        at = names.index(self._here) if self._here in names else 0
        listed = self.query_one("#jobs", RowList)
        listed.show(FixedRows(COLUMNS, rows), cursor=at)
        running = sum(look.runs for look in self._shown)
        text = ", ".join([wording.count(len(rows), "job"), f"{running} running"])
        lost = "as they were when the server answered" if owner.job_trouble else text
        listed.border_subtitle = Content(lost)
        self.filled()
        self._show_one()

    @on(RowList.Moved)
    def _moved(self) -> None:
        look = self._look()
        name = "" if look is None else look.job.id
        if name != self._here:
            self._here = name
            for pane in self.query(TextPane):
                pane.scroll_home(animate=False)
        self._show_one()

    def _show_one(self) -> None:
        look, glyphs, now = self._look(), self.owner.settings.glyphs, present()
        progress = self.query_one("#job-progress", TextPane)
        progress.renew(lambda width: progress_text(look, glyphs, width, now))
        if look is not None and look.runs and not progress.has_focus:
            under_way = len(look.told.stages) + 1  # lines down to the stage that runs
            progress.scroll_to(y=max(0, under_way - progress.size.height), animate=False)
        self.query_one("#job-problems", TextPane).renew(
            lambda width: problems_text(look, glyphs, width)
        )
        self.query_one(KeyLine).draw()

    def _look(self) -> JobLook | None:
        at = self.query_one("#jobs", RowList).cursor
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def _meant(self, key_id: str) -> JobLook | None:
        return self._look() if self.allowed(key_id) else None

    def why_not(self, key_id: str) -> str | None:
        """Why a key of a job does nothing at present."""
        if not key_id.startswith("jobs.") or key_id == "jobs.new":
            return super().why_not(key_id)
        look = self._look()
        if look is None:
            return "there is no job"
        if key_id == "jobs.stop":
            return None if look.runs else "it does not run"
        if key_id == "jobs.clear":
            if look.place:
                return "the server keeps its list of jobs itself"
            return "it runs; X stops it" if look.runs else None
        if key_id == "jobs.again":
            return None if look.command in FORMS else "it has no form"
        if key_id == "jobs.go_on":
            if look.runs:
                return "it runs"
            done = look.job.state is BackgroundState.ENDED and look.job.exit_code in (0, 1)
            return "it is done; i shows its form again" if done else None
        return None

    @on(RowList.Opened)
    def _open(self) -> None:
        look = self._look()
        if look is None:
            return
        name, kind = look.target
        if name and not look.runs:
            self._open_target(name, kind)
        else:
            self.action_log_of_job()

    def _open_target(self, name: str, kind: str) -> None:
        """Open what a job was about; a part may have been one of a graph, by its words a run's."""

        def known_kind() -> str:
            from divergraph.ask.model_parts import is_graph

            with suppress(DivergraphError):  # the view that is opened says what is wrong
                if self.owner.session.asked(lambda store: is_graph(store, name)):
                    return "graph"
            return kind

        self.ask("open", known_kind, lambda kind: self.post_message(OpenTarget(name, kind)))

    def action_log_of_job(self) -> None:
        """Show what the job printed."""
        look = self._meant("jobs.log")
        if look is not None:
            self.show_printed(f"Log of {look.command}", look)

    def action_stop_job(self) -> None:
        """Ask, then stop it."""
        look = self._meant("jobs.stop")
        if look is None:
            return
        note = "type yes: its process ends, nothing half done is kept"
        form = LineForm(self.owner.settings.glyphs, f"Stop {look.command}?", note=note)

        def answered(text: str | None) -> None:
            if text == "yes":
                self.notify("stopping it")
                self._do(partial(self.owner.watched.stop, look.job))
            else:
                self.notify("it goes on")

        self.app.push_screen(form, answered)

    def action_go_on(self) -> None:
        """Start its command again; in trouble with the store, try that again."""
        look = self._meant("jobs.go_on")
        if look is not None:
            self._do(partial(self.owner.watched.go_on, look.job))

    def action_again(self) -> None:
        """Show its form, filled in."""
        look = self._meant("jobs.again")
        if look is not None:
            self.open_form_again(look.job.words)

    def action_clear_job(self) -> None:
        """Take it off the list."""
        look = self._meant("jobs.clear")
        if look is not None:
            self._do(partial(self.owner.watched.clear, look.job))

    @work(thread=True, group="job", exit_on_error=False)
    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (DivergraphError, OSError) as error:
            self.notify(str(error), severity="error")
        self.app.call_from_thread(self.owner.look_at_jobs)

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """The command line of the job."""
        look = self._look()
        if look is None:
            return {}
        return {"command": ("c", shlex.join(["divergraph", *look.job.words]))}
