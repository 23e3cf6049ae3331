"""What a store holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask.memory.baselines import standings
from divergraph.ask.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphInfo, GraphStore
from graphstore.model import Run, RunStanding


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run, and how it stands against the baseline of its model, if that has one."""

    run: Run
    baseline: RunStanding | None


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """The runs and imported graphs of a store, oldest first, and how runs stand against the
    baseline of their model, by name."""

    runs: Sequence[Run]
    graphs: Sequence[GraphInfo]
    standings: Mapping[str, RunStanding]

    @property
    def stored(self) -> tuple[StoredRun, ...]:
        """Each run with how it stands."""
        return tuple(StoredRun(run, self.standings.get(run.name)) for run in self.runs)


@dataclass(frozen=True, slots=True)
class EntriesQuestion(Question[StoreEntries]):
    """Which runs and imported graphs are there?"""

    name = "runs"
    shapes = ("RunsAnswer",)

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> StoreEntries:
        """Both, oldest first."""
        runs = store.runs()
        return StoreEntries(runs, store.graphs(), standings(store, runs))


QUESTION = EntriesQuestion
