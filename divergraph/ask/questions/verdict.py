"""A run as the comparison that made it printed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask.facts import load_facts
from divergraph.ask.question import Question, RunName
from divergraph.thresholds.verdicts import badness
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, RunData
from graphstore.model import Comparison, Origin, Run, TensorIO

WORST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A run with all its comparisons; ``types`` are those of its ops, by id. ``name`` is that in
    the store, empty if nothing was stored."""

    run: Run
    name: str
    origins: Sequence[Origin]
    comparisons: Sequence[Comparison]
    types: Mapping[str, str]

    @classmethod
    def of(cls, data: RunData, *, stored: bool = True) -> RunVerdict:
        """That of a whole run."""
        types = {op.id: op.type for op in data.device.ops}
        name = data.run.name if stored else ""
        return cls(data.run, name, data.origins, data.comparisons, types)

    @property
    def observed(self) -> Run | None:
        """The run, if it is known what dumping changed in it."""
        return None if self.run.analysis.observed is None else self.run

    @property
    def worst(self) -> list[Comparison]:
        """The compared outputs that are worst off, at most ten."""
        return worst_first(self.comparisons)[:WORST_SHOWN]

    @property
    def not_compared(self) -> list[Comparison]:
        """The tensors without metrics."""
        return [item for item in self.comparisons if item.reason is not None and item.port >= 0]


@dataclass(frozen=True, slots=True)
class RunQuestion(Question[RunVerdict]):
    """What came of a comparison?"""

    name = "verdict"
    command = "compare"
    path = "/runs/{run}"
    shapes = ("RunAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RunVerdict:
        """The run with what its answer is made of."""
        record = store.run(self.run)
        rows = load_facts(store, self.run).rows
        types = dict(zip(rows.ids, rows.types, strict=True))
        comparisons = store.comparisons(self.run)
        return RunVerdict(record, record.name, store.origins(self.run), comparisons, types)


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Compared output tensors, worst first; equal ones in the order given."""
    outputs = [item for item in comparisons if item.io is TensorIO.OUTPUT and item.compared]

    def key(item: Comparison) -> tuple[int, float, float]:
        assert item.metrics is not None
        return badness(item.metrics, item.level)

    return sorted(outputs, key=key, reverse=True)


QUESTION = RunQuestion
