"""What a comparison has found by now, in a phrase for whoever watches it."""

from __future__ import annotations

from collections import Counter

from divergraph.jobs.progress import FindingListener, Progress
from graphstore.model import Comparison, Level

_WORDS = (
    (Level.PASS, "within the limits"),
    (Level.WARN, "past a warning level"),
    (Level.FAIL, "over a limit"),
    (None, "not compared"),
)


class Tally:
    """Counts comparisons by level, and tells *progress* if it listens."""

    def __init__(self, progress: Progress) -> None:
        self._listener = progress if isinstance(progress, FindingListener) else None
        self._counts: Counter[Level | None] = Counter()
        self._first: tuple[int, str] | None = None

    def add(self, number: int, compared: Comparison) -> None:
        """Count one comparison; *number* is its place in execution order."""
        if self._listener is None:
            return
        self._counts[compared.level] += 1
        if compared.level is Level.FAIL and (self._first is None or number < self._first[0]):
            self._first = number, compared.op
        self._listener.found(self._phrase())

    def _phrase(self) -> str:
        counts = [
            f"{self._counts[level]} {words}" for level, words in _WORDS if self._counts[level]
        ]
        first = "" if self._first is None else f"; first over a limit: {self._first[1]}"
        return ", ".join(counts) + first
