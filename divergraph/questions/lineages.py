"""What device ops were made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask import UnmatchedOps, lineage, unmatched
from divergraph.present.json.shapes import Json, link_json, unmatched_json
from divergraph.questions.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import LineageLink


@dataclass(frozen=True, slots=True)
class LineageQuestion(Question[Sequence[LineageLink]]):
    """Which originals was a device op made of, or where did an original go?"""

    run: str
    op: str

    def ask(
        self, store: GraphStore, cancellation: Cancellation | None = None
    ) -> Sequence[LineageLink]:
        """The links of the op, on whichever side it is."""
        return lineage(store, self.run, self.op)

    def json(self, answer: Sequence[LineageLink]) -> Mapping[str, Json]:
        """What ``lineage`` prints."""
        return {"run": self.run, "op": self.op, "links": [link_json(link) for link in answer]}


@dataclass(frozen=True, slots=True)
class UnmatchedQuestion(Question[UnmatchedOps]):
    """Which ops of both sides stand for nothing on the other, and why?"""

    run: str

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> UnmatchedOps:
        """Those of both sides, in execution order."""
        return unmatched(store, self.run)

    def json(self, answer: UnmatchedOps) -> Mapping[str, Json]:
        """What ``lineage --unmatched`` prints."""
        return {"run": self.run, **unmatched_json(answer)}
