"""Where an error starts, where it goes and what changed since another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from divergraph.ask.advisor.advisor import Advice, advise
from divergraph.ask.memory.notes import noted_origins, notes_by_op
from divergraph.ask.origin_answers import OriginsAnswer, origins
from divergraph.ask.question import Parameter, RunName
from divergraph.ask.trace_answers import Trace
from divergraph.ask.traces import trace
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.propagation import (
    advice_json,
    origins_json,
    trace_json,
)
from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class OriginsQuestion(WrittenQuestion[OriginsAnswer]):
    """Where does the error of a run start, and why? ``explain``: with how that was reckoned."""

    name = "origins"
    shapes = ("OriginsOfRun", "ExplainedOrigins")

    run: RunName
    explain: Annotated[
        bool,
        Parameter(
            "How each suspicion was reckoned: reference, emulation, noise floor, what widened or "
            "narrowed it; of ops next to the limit, too."
        ),
    ] = False

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> OriginsAnswer:
        """Origins and suspects, the worst first."""
        return noted_origins(store, origins(store, self.run))

    def json(self, answer: OriginsAnswer) -> Mapping[str, Json]:
        """What ``origins`` prints."""
        return origins_json(answer, explain=self.explain)


@dataclass(frozen=True, slots=True)
class TraceQuestion(WrittenQuestion[Trace]):
    """Where does the error of an op (the first origin, if none is named) go?"""

    name = "trace"
    shapes = ("TraceAnswer",)

    run: RunName
    op: Annotated[
        str | None, Parameter("Where to start; default: the first origin.", is_argument=True)
    ] = None
    to: Annotated[str | None, Parameter("Follow the error to this op only.", metavar="OP")] = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Trace:
        """All that is downstream, and the paths on which most of the error is carried."""
        found = trace(store, self.run, self.op, to=self.to)
        return replace(found, notes=notes_by_op(store, store.run(self.run)))

    def json(self, answer: Trace) -> Mapping[str, Json]:
        """What ``trace`` prints."""
        return trace_json(self.run, answer)


@dataclass(frozen=True, slots=True)
class AdviceQuestion(WrittenQuestion[Advice]):
    """What does a run show as a whole, and what is to be done next?"""

    name = "advise"
    path = "/runs/{run}/advice"
    shapes = ("AdviceAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Advice:
        """The findings; the first is the one to act on."""
        return advise(store.run_data(self.run))

    def json(self, answer: Advice) -> Mapping[str, Json]:
        """What ``advise`` prints; no file was written."""
        return advice_json(self.run, answer, None)
