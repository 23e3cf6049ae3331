"""What device ops were made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask import UnmatchedOps, lineage, unmatched
from divergraph.ask.question import OpName, RunName, TargetName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.shapes import Json, link_json, unmatched_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import LineageLink


@dataclass(frozen=True, slots=True)
class LineageQuestion(WrittenQuestion[Sequence[LineageLink]]):
    """Which originals was a device op made of, or where did an original go?"""

    name = "lineage"
    graphs = True
    shapes = ("LineageAnswer",)

    run: TargetName
    op: OpName

    def ask(
        self, store: GraphStore, cancellation: Cancellation | None = None
    ) -> Sequence[LineageLink]:
        """The links of the op, on whichever side it is."""
        return lineage(store, self.run, self.op)

    def json(self, answer: Sequence[LineageLink]) -> Mapping[str, Json]:
        """What ``lineage`` prints."""
        return {"run": self.run, "op": self.op, "links": [link_json(link) for link in answer]}


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
