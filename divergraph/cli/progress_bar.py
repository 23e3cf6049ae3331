"""A progress bar on standard error, only where someone is looking at it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.text.printable import printable

if TYPE_CHECKING:
    import rich.progress


class _Bar:
    def __init__(self, bar: rich.progress.Progress) -> None:
        self._bar = bar
        self._task: rich.progress.TaskID | None = None

    def stage(self, text: str, total: int | None = None) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(printable(text), total=total, note="")

    def step(self, amount: int = 1, note: str = "") -> None:
        if self._task is not None:
            self._bar.update(self._task, advance=amount, note=printable(note))


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar with rate and time left while the block runs; nothing without a terminal."""
    if not sys.stderr.isatty():
        yield NO_PROGRESS
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}", markup=False),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar)
