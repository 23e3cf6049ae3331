"""What a run shows as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.advisor.advisor import Advice, stored_advice
from divergraph.ask.question import Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class AdviceQuestion(Question[Advice]):
    """What does a run show as a whole, and what should be done next?"""

    name = "advise"
    path = "/runs/{run}/advice"
    shapes = ("AdviceAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Advice:
        """The findings; the first is the one to act on."""
        return stored_advice(store, self.run)


QUESTION = AdviceQuestion
