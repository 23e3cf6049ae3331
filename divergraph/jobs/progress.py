"""How long work tells how far it is; the caller decides what that looks like."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """Receives stages and steps. All calls come from the thread that does the work."""

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins; *total* steps if that is known."""

    def step(self, amount: int = 1, note: str = "") -> None:
        """*amount* steps of the stage are done; *note* says what is under way."""


@runtime_checkable
class ProblemListener(Protocol):
    """A progress that also hears of problems while the work goes on."""

    def problem(self, text: str) -> None:
        """Something cannot be done, and is left out."""


def tell_problem(progress: Progress, text: str) -> None:
    """Tell a problem as soon as it is known, if *progress* listens to problems."""
    if isinstance(progress, ProblemListener):
        progress.problem(text)


@runtime_checkable
class FindingListener(Protocol):
    """A progress that also hears what was found so far."""

    def found(self, text: str) -> None:
        """What the work has found by now, in a phrase that replaces the one before."""


class Silent:
    """Shows nothing."""

    def stage(self, text: str, total: int | None = None) -> None:
        """Nothing."""

    def step(self, amount: int = 1, note: str = "") -> None:
        """Nothing."""


NO_PROGRESS: Progress = Silent()
