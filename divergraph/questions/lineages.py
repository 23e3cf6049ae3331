"""Which ops have no counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.ask.answers import UnmatchedOps
from divergraph.ask.details import unmatched
from divergraph.ask.question import RunName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.shapes import Json, unmatched_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class UnmatchedQuestion(WrittenQuestion[UnmatchedOps]):
    """Which ops of both sides stand for nothing on the other, and why?"""

    name = "unmatched"
    command = "lineage --unmatched"
    shapes = ("UnmatchedAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> UnmatchedOps:
        """Those of both sides, in execution order."""
        return unmatched(store, self.run)

    def json(self, answer: UnmatchedOps) -> Mapping[str, Json]:
        """What ``lineage --unmatched`` prints."""
        return {"run": self.run, **unmatched_json(answer)}
