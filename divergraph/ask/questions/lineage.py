"""What an op was made of, or what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.details import lineage
from divergraph.ask.question import OpName, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import LineageLink


@dataclass(frozen=True, slots=True)
class LineageAnswer:
    """The links of an op, on whichever side it is."""

    run: str
    op: str
    links: tuple[LineageLink, ...]


@dataclass(frozen=True, slots=True)
class LineageQuestion(Question[LineageAnswer]):
    """Which originals was a device op made of, or what became of an original?"""

    name = "lineage"
    example = "divergraph lineage RUN OP"
    graphs = True

    run: TargetName
    op: OpName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> LineageAnswer:
        """The links with their evidence."""
        return LineageAnswer(self.run, self.op, tuple(lineage(store, self.run, self.op)))


QUESTION = LineageQuestion
