"""Which address asks which question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divergraph.questions.lineages import LineageQuestion, UnmatchedQuestion
from divergraph.questions.listings import BetweenQuestion, EntriesQuestion, OpsQuestion
from divergraph.questions.propagation import (
    AdviceQuestion,
    ChangesQuestion,
    OriginsQuestion,
    RecurringQuestion,
    RolesQuestion,
    TraceQuestion,
)
from divergraph.questions.question import Question
from divergraph.questions.tensors import TensorQuestion
from divergraph.questions.verdicts import RunQuestion
from divergraph.server.tokens import UserRole

VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class QuestionRoute:
    """An address: its parameters are the options of ``command``, its answer is number ``answer``
    of those whose JSON that command declares; at least ``role`` may ask. The files of the run are
    read if it ``reads_files``."""

    path: str
    question: type[Question[Any]]
    command: str
    answer: int = 0
    role: UserRole = UserRole.READER
    reads_files: bool = False


QUESTIONS = (
    QuestionRoute("/runs", EntriesQuestion, "runs"),
    QuestionRoute("/runs/{run}", RunQuestion, "analyse"),
    QuestionRoute("/runs/{run}/ops", OpsQuestion, "ops"),
    QuestionRoute("/runs/{run}/origins", OriginsQuestion, "origins"),
    QuestionRoute("/runs/{run}/trace", TraceQuestion, "trace"),
    QuestionRoute("/runs/{run}/roles", RolesQuestion, "roles"),
    QuestionRoute("/runs/{run}/advice", AdviceQuestion, "advise"),
    QuestionRoute("/runs/{run}/lineage", LineageQuestion, "lineage"),
    QuestionRoute("/runs/{run}/unmatched", UnmatchedQuestion, "lineage", 1),
    QuestionRoute("/runs/{run}/between", BetweenQuestion, "between"),
    QuestionRoute(
        "/runs/{run}/tensor", TensorQuestion, "tensor", 0, UserRole.ANALYST, reads_files=True
    ),
    QuestionRoute("/graphs/{run}/ops", OpsQuestion, "ops"),
    QuestionRoute("/graphs/{run}/between", BetweenQuestion, "between"),
    QuestionRoute("/changes", ChangesQuestion, "compare-runs"),
    QuestionRoute("/recurring", RecurringQuestion, "origins", 2),
)
