"""What the last `minimize` of a run printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from divergraph.ask.question import Question, RunName
from divergraph.ask.questions.blame import printed_before
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class KeptMinimizeQuestion(Question[Mapping[str, Any]]):
    """Which smallest failing parts did the last search find?"""

    name = "minimize"
    shapes = ("MinimizeAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Mapping[str, Any]:
        """What ``minimize`` printed.

        Raises:
            NotDoneError: nobody has searched this run.
        """
        return printed_before("minimize", self.run, store.run(self.run).analysis.minimized)


QUESTION = KeptMinimizeQuestion
