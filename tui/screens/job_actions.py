"""What every view does about jobs: it tells of those that run, and asks before leaving."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from textual import work

from tui.jobs.job_words import in_title
from tui.jobs.watched import JobLook
from tui.screens.edges import EdgeActions
from tui.screens.windows.leave import GO_ON, STOP, LeaveOverlay
from tui.widgets.lines import TitleLine


class JobActions(EdgeActions):
    """A view that knows of the jobs of its app."""

    def show_jobs(self) -> None:
        """Tell in the title line what runs."""
        running = [look for look in self.owner.looks if look.runs]
        self.query_one(TitleLine).show_job(in_title(running))

    def jobs_made(self, names: Collection[str], *, other_ops: bool) -> None:
        """Jobs have written these runs and graphs, perhaps with *other_ops* than before."""

    def job_not_started(self) -> None:
        """A job that this view asked for could not be started."""

    def action_quit(self) -> None:
        """Leave; while a job runs, only when told what becomes of it."""
        running = [look for look in self.owner.looks if look.runs and not look.place]
        if running:
            leaving = LeaveOverlay(self.owner.settings.glyphs, running)
            self.app.push_screen(leaving, self._leave_so)
        else:
            self.app.exit()

    def _leave_so(self, choice: str | None) -> None:
        if choice == GO_ON:
            self.app.exit()
        elif choice == STOP:
            self.notify("stopping what runs")
            self._stop_and_leave([look for look in self.owner.looks if look.runs])

    @work(thread=True, exclusive=True, group="leave", exit_on_error=False)
    def _stop_and_leave(self, running: list[JobLook]) -> None:
        with ThreadPoolExecutor(len(running)) as pool:
            list(pool.map(self.owner.watched.stop, [look.job for look in running]))
        self.app.call_from_thread(self.app.exit)
