"""What takes how long, as records of :mod:`logging`: the logger ``divergraph.stages``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from divergraph.jobs.progress import FindingListener, Progress, tell_problem

LOG = logging.getLogger("divergraph.stages")


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Log how long the block took."""
    began = perf_counter()
    try:
        yield
    finally:
        LOG.info("%8.3f s  %s", perf_counter() - began, what)


class TimedStages:
    """Passes all it hears to another progress, and logs each stage when it is over."""

    def __init__(self, heard: Progress) -> None:
        self._heard = heard
        self._stage, self._steps, self._began = "", 0, 0.0

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins, so the one before is over."""
        self.end()
        self._stage, self._steps, self._began = text, 0, perf_counter()
        self._heard.stage(text, total)

    def step(self, amount: int = 1, note: str = "") -> None:
        """Some more steps are done."""
        self._steps += amount
        self._heard.step(amount, note)

    def problem(self, text: str) -> None:
        """Something cannot be done, and is left out."""
        tell_problem(self._heard, text)

    def found(self, text: str) -> None:
        """What the work has found by now."""
        if isinstance(self._heard, FindingListener):
            self._heard.found(text)

    def end(self) -> None:
        """The last stage is over."""
        if self._stage:
            steps = f" ({self._steps})" if self._steps else ""
            LOG.info("%8.3f s  %s%s", perf_counter() - self._began, self._stage, steps)
        self._stage = ""
