"""Where the error of a run starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.memory.notes import noted_origins
from divergraph.ask.origin_answers import OriginsAnswer, origins
from divergraph.ask.question import Parameter, Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class OriginsQuestion(Question[OriginsAnswer]):
    """Where does the error of a run start, and why? With ``explain``: how that was calculated."""

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

    def shape(self) -> str:
        """The answer says how suspicions were reckoned if that was asked for."""
        return "ExplainedOrigins" if self.explain else "OriginsOfRun"


QUESTION = OriginsQuestion
