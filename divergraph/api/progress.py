"""``progress=``: reports of long work, in the form the caller wants."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from divergraph.jobs.background.own_process import own_progress
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.jobs.stage_times import LOG, TimedStages
from divergraph.text.loudness import Loudness, loudness
from divergraph.text.printable import printable

if TYPE_CHECKING:
    import rich.progress

ProgressCall: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage in words, the steps done of it, and how many there are (None: unknown)."""

ProgressOption: TypeAlias = Progress | ProgressCall | bool | None
"""``True`` draws a bar on standard error, where it is a terminal or notebook."""


class _Calling:
    """Progress as calls of a function."""

    def __init__(self, call: ProgressCall) -> None:
        self._call = call
        self._stage, self._done = "", 0
        self._total: int | None = None

    def stage(self, text: str, total: int | None = None) -> None:
        self._stage, self._done, self._total = text, 0, total
        self._call(text, 0, total)

    def step(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        self._call(self._stage, self._done, self._total)


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
def telling(progress: ProgressOption) -> Iterator[Progress]:
    """The object the work reports its progress to while the block runs."""
    with _heard_by(progress) as heard:
        if not LOG.isEnabledFor(logging.INFO):
            yield heard
            return
        stages = TimedStages(heard)
        try:
            yield stages
        finally:
            stages.end()


@contextmanager
def _heard_by(progress: ProgressOption) -> Iterator[Progress]:
    if progress is True:
        with progress_bar() as bar:
            yield bar
    elif progress is None or progress is False:
        yield NO_PROGRESS
    elif isinstance(progress, Progress):
        yield progress
    else:
        yield _Calling(progress)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar with rate and time left while the block runs; nothing where nobody would see it, with
    ``-q``, and with ``-v``, which says more.

    The process of a background job tells its job instead.
    """
    if (own := own_progress()) is not None:
        yield own
        return
    is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not is_seen or loudness() is not Loudness.USUAL:
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
