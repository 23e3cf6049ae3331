"""What the app does about jobs that are processes: it starts and follows them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual import work

from graphstore.errors import DivergraphError
from tui.address import ScreenAddress
from tui.jobs.job_words import ending
from tui.jobs.watched import JobLook
from tui.messages import ask
from tui.owner import Owner
from tui.screens.job_actions import JobActions
from tui.style.themed_app import ThemedApp

_WRITES_GRAPHS = ("import", "compare", "demo")
_SECONDS = 0.5
"""So often one looks at jobs, while any runs or they are on screen."""


class JobFollower(ThemedApp, Owner):
    """An app that knows the jobs of its store."""

    def follow_jobs(self) -> None:
        """Look now, and again and again while there is something to see."""
        self.look_at_jobs()
        self.set_interval(_SECONDS, self._look_again)

    def _look_again(self) -> None:
        if self.current_mode == "jobs" or self.job_trouble or any(look.runs for look in self.looks):
            self.look_at_jobs()

    def look_at_jobs(self) -> None:
        """See soon what the jobs do."""
        ask(self, "jobs", self.watched.look, self._looked)

    def _looked(self, looks: tuple[JobLook, ...]) -> None:
        """Know the jobs as they are now."""
        self._tell_trouble(self.watched.trouble)
        ran = {look.job.id for look in self.looks if look.runs}
        if looks != self.looks:
            self.looks = looks
        ended = [look for look in looks if look.job.id in ran and not look.runs]
        for look in ended:
            self.notify(f"{look.command}: {ending(look)}", timeout=10)
        if names := {name for look in ended for name in look.written}:
            graphs_written = any(look.command in _WRITES_GRAPHS for look in ended)
            self._forget_old(names, other_ops=graphs_written)

    def _tell_trouble(self, trouble: str) -> None:
        """Say once that a server is lost, and that it is back."""
        if trouble and not self.job_trouble:
            self.notify(f"{trouble}; it is asked again", severity="warning", timeout=10)
        elif self.job_trouble and not trouble:
            self.notify("the server answers again")
        self.job_trouble = trouble

    def _forget_old(self, names: Collection[str], *, other_ops: bool) -> None:
        """Keep nothing older of what jobs have written, perhaps with *other_ops*."""

        def forget() -> None:
            for name in names:
                self.session.renewed(name)  # waits for a question that is being answered

        def renewed(_: None) -> None:
            screen = self.screen_stack[0]  # below any window
            if isinstance(screen, JobActions):
                screen.jobs_made(names, other_ops=other_ops)

        ask(self, "renew", forget, renewed, exclusive=False)

    def start_job(self, words: Sequence[str], *, here: bool = False) -> None:
        """Start a command as a process, and show it in the view of jobs, or *here* only."""
        at = list(words).index("--store") if "--store" in words else len(words)
        if self.watched.elsewhere is None:  # or no command line does it
            self.session.note(*words[:at])  # which names the store itself
        self._start_process(words, here)

    @work(thread=True, group="start-job", exit_on_error=False)
    def _start_process(self, words: Sequence[str], here: bool) -> None:
        try:
            name = self.watched.start(words)
        except (DivergraphError, OSError) as error:
            self.call_later(self._job_not_started, str(error))
        else:
            self.call_later(self._job_started, name, here)

    def _job_not_started(self, trouble: str) -> None:
        self.notify(f"not started: {trouble}", severity="error")
        if isinstance(screen := self.screen_stack[0], JobActions):
            screen.job_not_started()

    def _job_started(self, name: str, here: bool) -> None:
        self.fresh_job = name
        self.look_at_jobs()
        if self.current_mode != "jobs" and not here:
            session = self.session
            self.go(ScreenAddress(session.target, session.kind, view="jobs"))
