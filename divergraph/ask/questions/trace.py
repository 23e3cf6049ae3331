"""Where an error goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from divergraph.ask.memory.notes import notes_by_op
from divergraph.ask.question import Parameter, Question, RunName
from divergraph.ask.trace_answers import Trace
from divergraph.ask.traces import trace
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class TraceQuestion(Question[Trace]):
    """Where does the error of an op go? Without OP: that of the first origin."""

    name = "trace"
    shapes = ("TraceAnswer",)
    picture: ClassVar[Mapping[str, str]] = {"op": "{op}", "path": "worst"}

    run: RunName
    op: Annotated[
        str | None, Parameter("Where to start; default: the first origin.", is_argument=True)
    ] = None
    to: Annotated[str | None, Parameter("Follow the error to this op only.", metavar="OP")] = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Trace:
        """All that is downstream, and the paths on which most of the error is carried."""
        answer = trace(store, self.run, self.op, to=self.to)
        return replace(answer, notes=notes_by_op(store, store.run(self.run)))


QUESTION = TraceQuestion
