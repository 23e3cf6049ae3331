"""The interface of the app that views, palette and start use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.app import App
from textual.reactive import reactive

if TYPE_CHECKING:
    from tui.address import ScreenAddress
    from tui.jobs.watched import JobLook, WatchedJobs
    from tui.keys import Key, KeyScope
    from tui.session import Session
    from tui.settings import Settings
    from tui.widgets.text_pane import Build


class Owner(App[None]):
    """An app with a session; it knows the views, they know only this of it."""

    looks: reactive[tuple[JobLook, ...]] = reactive(())
    """The jobs of the store, newest first; every view tells of those that run."""
    job_trouble: reactive[str] = reactive("")
    """Why jobs are not known as they are now."""
    coming: list[str]
    """The views that were asked for and are not shown yet, in this order."""
    fresh_job = ""
    """The job that was just started, until its row is under the cursor."""
    watched: WatchedJobs
    session: Session
    settings: Settings
    keys: Sequence[Key]

    @abstractmethod
    def look_at_jobs(self) -> None:
        """See soon what the jobs do."""

    @abstractmethod
    def start_job(self, words: Sequence[str], *, here: bool = False) -> None:
        """Start a command as a process, and show it in the view of jobs, or *here* only."""

    @abstractmethod
    def go(self, address: ScreenAddress) -> None:
        """Go to *address* and remember it in the jump list."""

    @abstractmethod
    def jump(self, direction: int) -> None:
        """Go back (-1) or forward (1) in the jump list."""

    @abstractmethod
    def open_op(self, op: str) -> None:
        """Show *op* in the list of ops, keeping that list's filter and order if it is open."""

    @abstractmethod
    def open_filter(self, where: str | None) -> None:
        """Go to the list of ops, filtered by *where*, or with the cursor in its filter."""

    @abstractmethod
    def show_text(self, title: str, build: Build) -> None:
        """Show a long text in a window."""

    @abstractmethod
    def show_help(self, scopes: Sequence[KeyScope], unavailable: Mapping[str, str]) -> None:
        """Show the keys, those of *scopes* first."""

    @abstractmethod
    def next_theme(self) -> None:
        """Show everything in the next theme, and keep it for later sessions."""

    @abstractmethod
    def show_log(self) -> None:
        """Show the shell commands equal to what was on screen."""

    @abstractmethod
    def offer_copies(self, choices: Mapping[str, tuple[str, str]]) -> None:
        """Let the user choose what to copy."""
