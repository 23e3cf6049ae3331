"""Which runs others are held against."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Baseline


@dataclass(frozen=True, slots=True)
class BaselinesAnswer:
    """The baselines, one a model."""

    baselines: tuple[Baseline, ...]


@dataclass(frozen=True, slots=True)
class BaselinesQuestion(Question[BaselinesAnswer]):
    """Which run is the baseline of each model?"""

    name = "baselines"
    command = "baseline list"

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> BaselinesAnswer:
        """The baselines, by model."""
        return BaselinesAnswer(tuple(store.baselines()))


QUESTION = BaselinesQuestion
