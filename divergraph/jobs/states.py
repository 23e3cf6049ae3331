"""How far a job is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """True if nothing will change any more."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A look at a job: items and bytes, ``resumed`` items were done by an earlier job that
    was stopped. ``seconds`` since the start."""

    state: JobState
    done: int
    total: int
    bytes_done: int
    bytes_total: int
    resumed: int = 0
    bytes_resumed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Bytes a second, without what was resumed; None before anything is done."""
        done = self.bytes_done - self.bytes_resumed
        return done / self.seconds if done > 0 and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at this rate; None before there is one."""
        rate = self.rate
        return None if rate is None else max(self.bytes_total - self.bytes_done, 0) / rate

    def rate_text(self) -> str:
        """``214 MB/s``, empty before there is a rate."""
        rate = self.rate
        if rate is None:
            return ""
        for unit in ("B", "kB", "MB"):
            if rate < 1000:
                return f"{rate:.3g} {unit}/s"
            rate /= 1000
        return f"{rate:.3g} GB/s"
