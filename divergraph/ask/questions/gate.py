"""Whether a run may pass, held against another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.gate.passing import GateAnswer, gate_by_run
from divergraph.ask.question import Parameter, Question, RunName
from divergraph.ask.questions.compare_runs import TIMES
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED, Outcome
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class GateQuestion(Question[GateAnswer]):
    """Does a run pass? No op may be worse than in the baseline of its model, or in another run."""

    name = "gate"
    command = "gate"
    table = "worse"

    run: RunName
    baseline: Annotated[
        str,
        Parameter(
            "The run it is held against; default: the baseline of its model.",
            is_run=True,
            is_argument=False,
        ),
    ] = ""
    times: Annotated[
        float, Parameter("Errors that changed by less than this factor are the same.", above=1)
    ] = TIMES

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> GateAnswer:
        """Whether it may, and what is against it.

        Raises:
            UnknownNameError: no such run.
            InputError: there is no baseline, or both have no original tensor in common.
        """
        return gate_by_run(store, self.run, self.baseline, times=self.times)

    def outcome(self, answer: GateAnswer) -> Outcome:
        """Diverged if an op is worse."""
        if answer.passed:
            return FINE
        return DIVERGED if answer.worse else NOTHING_COMPARED


QUESTION = GateQuestion
