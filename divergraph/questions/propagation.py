"""Where an error starts, where it goes and what changed since another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from divergraph.ask import (
    OriginsAnswer,
    RoleTable,
    RunChanges,
    Trace,
    compare_runs,
    origins,
    roles,
    trace,
)
from divergraph.ask.advisor.advisor import Advice, advise
from divergraph.ask.memory.notes import noted_origins, notes_by_op
from divergraph.ask.question import Parameter, RunName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.propagation import (
    advice_json,
    changes_json,
    origins_json,
    roles_json,
    trace_json,
)
from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.filter import parse_filter
from graphstore.model import SPLIT_ORDERS


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
class RolesQuestion(WrittenQuestion[RoleTable]):
    """What does each op do to the error?"""

    name = "roles"
    shapes = ("RolesAnswer",)

    run: RunName
    where: Annotated[
        str | None, Parameter("For example: role=amplifies amp>2", metavar="FILTER")
    ] = None
    order: Annotated[
        str, Parameter("The largest first.", name="sort", choices=("topo", *SPLIT_ORDERS))
    ] = "topo"

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RoleTable:
        """The ops the filter ``where`` takes, in this order.

        Raises:
            FilterError: the filter cannot be understood.
        """
        wanted = parse_filter(self.where) if self.where else None
        found = roles(store, self.run, wanted, order=self.order)
        return replace(found, notes=notes_by_op(store, found.run))

    def json(self, answer: RoleTable) -> Mapping[str, Json]:
        """What ``roles`` prints."""
        return roles_json(self.run, answer)


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


@dataclass(frozen=True, slots=True)
class ChangesQuestion(WrittenQuestion[RunChanges]):
    """Which ops make more, or less, error of their own in one run than in an older one?"""

    name = "compare-runs"
    path = "/changes"
    shapes = ("ChangesAnswer",)

    old: Annotated[str, Parameter("The older run.", is_run=True)]
    new: Annotated[str, Parameter("The newer run.", is_run=True)]
    times: Annotated[
        float,
        Parameter("Errors that changed by less than this factor are the same.", above=1),
    ] = 2.0

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RunChanges:
        """What changed by the factor ``times`` or more."""
        return compare_runs(store, self.old, self.new, times=self.times)

    def json(self, answer: RunChanges) -> Mapping[str, Json]:
        """What ``compare-runs`` prints."""
        return changes_json(answer)
