"""How a run was judged, as answers about its errors have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from graphstore.model import InputMismatch, Method, Run


@dataclass(frozen=True, slots=True)
class SuspicionLimits:
    """The suspicions above which an op is suspect or guilty."""

    suspect: float
    guilty: float


@dataclass(frozen=True, slots=True)
class Judging:
    """By which method, limits and arithmetic the ops of a run were judged."""

    method: Method
    limits: Annotated[SuspicionLimits, "the suspicions above which an op is suspect or guilty"]
    precision: Annotated[str | None, "what the noise floors were found for"]
    executor: Annotated[str | None, "what ran the reference"]
    note: Annotated[str | None, "why there is no better answer"]
    entry_mismatches: tuple[InputMismatch, ...]

    @classmethod
    def of(cls, run: Run) -> Judging:
        """That of *run*."""
        analysis = run.analysis
        return cls(
            run.method,
            SuspicionLimits(analysis.suspect, analysis.guilty),
            str(analysis.arithmetic) or None,
            analysis.executor or None,
            analysis.note or None,
            analysis.mismatches,
        )
