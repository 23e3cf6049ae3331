"""Where an error starts, where it goes and what changed since another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
from divergraph.present.json.propagation import (
    advice_json,
    changes_json,
    origins_json,
    roles_json,
    trace_json,
)
from divergraph.present.json.shapes import Json
from divergraph.questions.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.filter import parse_filter


@dataclass(frozen=True, slots=True)
class OriginsQuestion(Question[OriginsAnswer]):
    """Where does the error of a run start, and why? ``explain``: with how that was reckoned."""

    run: str
    explain: bool = False

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> OriginsAnswer:
        """Origins and suspects, the worst first."""
        return noted_origins(store, origins(store, self.run))

    def json(self, answer: OriginsAnswer) -> Mapping[str, Json]:
        """What ``origins`` prints."""
        return origins_json(answer, explain=self.explain)


@dataclass(frozen=True, slots=True)
class TraceQuestion(Question[Trace]):
    """Where does the error of an op (the first origin, if none is named) go?"""

    run: str
    op: str | None = None
    to: str | None = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Trace:
        """All that is downstream, and the paths on which most of the error is carried."""
        found = trace(store, self.run, self.op, to=self.to)
        return replace(found, notes=notes_by_op(store, store.run(self.run)))

    def json(self, answer: Trace) -> Mapping[str, Json]:
        """What ``trace`` prints."""
        return trace_json(self.run, answer)


@dataclass(frozen=True, slots=True)
class RolesQuestion(Question[RoleTable]):
    """What does each op do to the error?"""

    run: str
    where: str | None = None
    order: str = "topo"

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
class AdviceQuestion(Question[Advice]):
    """What does a run show as a whole, and what is to be done next?"""

    run: str

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Advice:
        """The findings; the first is the one to act on."""
        return advise(store.run_data(self.run))

    def json(self, answer: Advice) -> Mapping[str, Json]:
        """What ``advise`` prints; no file was written."""
        return advice_json(self.run, answer, None)


@dataclass(frozen=True, slots=True)
class ChangesQuestion(Question[RunChanges]):
    """Which ops make more, or less, error of their own in one run than in an older one?"""

    old: str
    new: str
    times: float = 2.0

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RunChanges:
        """What changed by the factor ``times`` or more."""
        return compare_runs(store, self.old, self.new, times=self.times)

    def json(self, answer: RunChanges) -> Mapping[str, Json]:
        """What ``compare-runs`` prints."""
        return changes_json(answer)
