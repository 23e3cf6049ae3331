"""What the app does about jobs that are processes: it starts and follows them."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on, work
from textual.message import Message

from graphstore.errors import DivergraphError
from tui.address import ScreenAddress
from tui.jobs.job_words import ending
from tui.jobs.watched import JobLook
from tui.owner import Owner

_SECONDS = 0.5
"""So often one looks at jobs, while any runs or they are on screen."""


class JobFollower(Owner):
    """An app that knows the jobs of its store."""

    class Looked(Message):
        """The jobs as they are now."""

        def __init__(self, looks: tuple[JobLook, ...]) -> None:
            super().__init__()
            self.looks = looks

        def can_replace(self, message: Message) -> bool:
            """True for an older one."""
            return isinstance(message, JobFollower.Looked)

    class JobStarted(Message):
        """A process runs, or could not be started, for which there is a sentence."""

        def __init__(self, trouble: str) -> None:
            super().__init__()
            self.trouble = trouble

    def follow_jobs(self) -> None:
        """Look now, and again and again while there is something to see."""
        self.look_at_jobs()
        self.set_interval(_SECONDS, self._look_again)

    def _look_again(self) -> None:
        if self.current_mode == "jobs" or any(look.runs for look in self.looks):
            self.look_at_jobs()

    def look_at_jobs(self) -> None:
        """See soon what the jobs do."""
        self._look_at_jobs()

    @work(thread=True, exclusive=True, group="jobs", exit_on_error=False)
    def _look_at_jobs(self) -> None:
        self.post_message(self.Looked(self.watched.look()))

    @on(Looked)
    def _looked(self, event: Looked) -> None:
        ran = {look.job.id for look in self.looks if look.runs}
        if event.looks != self.looks:
            self.looks = event.looks
        for look in event.looks:
            if look.job.id in ran and not look.runs:
                self.notify(f"{look.command}: {ending(look)}", timeout=10)
                self._show_anew(look.target[0])

    def _show_anew(self, name: str) -> None:
        """Ask again for the run *name*, which a job may have changed."""
        if name:
            self.session.made_anew(name)
        if name and name == self.session.target and self.current_mode not in ("jobs", "runs"):
            self.show_again()

    def start_job(self, words: Sequence[str]) -> None:
        """Start a command as a process, and show it in the view of jobs."""
        at = list(words).index("--store") if "--store" in words else len(words)
        self.session.note(*words[:at])  # which names the store itself
        self._start_process(words)

    @work(thread=True, group="start-job", exit_on_error=False)
    def _start_process(self, words: Sequence[str]) -> None:
        try:
            self.watched.start(words)
        except (DivergraphError, OSError) as error:
            self.post_message(self.JobStarted(str(error)))
        else:
            self.post_message(self.JobStarted(""))

    @on(JobStarted)
    def _job_started(self, event: JobStarted) -> None:
        if event.trouble:
            self.notify(f"not started: {event.trouble}", severity="error")
            return
        self.look_at_jobs()
        if self.current_mode != "jobs":
            session = self.session
            self.go(ScreenAddress(session.target, session.kind, view="jobs"))
