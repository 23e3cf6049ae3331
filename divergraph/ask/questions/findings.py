"""What was found in a run."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.question import Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Finding


@dataclass(frozen=True, slots=True)
class FindingsAnswer:
    """All findings of a run, as they were kept."""

    run: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FindingsQuestion(Question[FindingsAnswer]):
    """What was found in RUN: causes of its origins, and inconsistencies?"""

    name = "findings"
    example = "divergraph findings RUN"

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FindingsAnswer:
        """All of it."""
        return FindingsAnswer(self.run, tuple(store.findings(self.run)))


QUESTION = FindingsQuestion
