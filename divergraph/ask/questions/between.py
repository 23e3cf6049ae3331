"""Which ops lie on a path from one op to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.facts import find_run
from divergraph.ask.memory.notes import with_notes
from divergraph.ask.question import Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class BetweenAnswer:
    """Both ends and all ops between, in execution order."""

    run: str
    start: str
    end: str
    ops: Annotated[
        tuple[OpRow, ...],
        "those on any path from start to end; none where no path leads there",
    ]


@dataclass(frozen=True, slots=True)
class BetweenQuestion(Question[BetweenAnswer]):
    """Which ops lie on a path from START to END, both included?

    Ops are named as on the device, or both as in the golden model: then its ops are listed.
    """

    name = "between"
    example = "divergraph between RUN conv1 relu3"
    graphs = True

    run: TargetName
    start: Annotated[str, Parameter("The first op.")]
    end: Annotated[str, Parameter("The last op.")]

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> BetweenAnswer:
        """Those of the device, or of the golden graph where only that has both ends."""
        # What cuts models comes with it, which `divergraph --help` need not wait for.
        from divergraph.ask.traces import ops_between

        rows = ops_between(store, self.run, self.start, self.end)
        noted = with_notes(store, find_run(store, self.run), rows)
        return BetweenAnswer(self.run, self.start, self.end, tuple(noted))


QUESTION = BetweenQuestion
