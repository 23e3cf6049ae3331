"""A run as the comparison that made it printed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask.facts import load_facts
from divergraph.present.json.shapes import Json, run_json
from divergraph.questions.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Origin, Run


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run of a store, with all its comparisons; ``types`` are those of its ops."""

    run: Run
    origins: Sequence[Origin]
    comparisons: Sequence[Comparison]
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunQuestion(Question[KeptRun]):
    """What came of a comparison?"""

    run: str

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> KeptRun:
        """The run with what its answer is made of."""
        record = store.run(self.run)
        rows = load_facts(store, self.run).rows
        types = dict(zip(rows.ids, rows.types, strict=True))
        return KeptRun(record, store.origins(self.run), store.comparisons(self.run), types)

    def json(self, answer: KeptRun) -> Mapping[str, Json]:
        """What ``compare`` printed."""
        return run_json(answer.run, answer.origins, answer.comparisons, answer.types)
