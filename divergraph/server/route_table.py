"""Which address asks which question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divergraph.ask.question import Question, answer_of, fields_of, table_of
from divergraph.ask.registry import all_questions
from divergraph.questions.lineages import LineageQuestion, UnmatchedQuestion
from divergraph.questions.listings import BetweenQuestion, EntriesQuestion, OpsQuestion
from divergraph.questions.memory import BaselinesQuestion, NotesQuestion
from divergraph.questions.parts import KeptBlameQuestion, KeptMinimizeQuestion, SubmodelQuestion
from divergraph.questions.propagation import (
    AdviceQuestion,
    ChangesQuestion,
    OriginsQuestion,
    RolesQuestion,
    TraceQuestion,
)
from divergraph.questions.tensors import (
    TensorHistogramQuestion,
    TensorQuestion,
    TensorSliceQuestion,
)
from divergraph.questions.verdicts import FindingsQuestion, OpQuestion, RunQuestion
from divergraph.server.tokens import UserRole

VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class QuestionRoute:
    """An address: its parameters are options of ``commands``, or of the question if there are none;
    the answer is one of ``shapes``, by the names of their declarations; at least ``role`` may ask.
    The files of the run are read if it ``reads_files``."""

    path: str
    question: type[Question[Any]]
    commands: tuple[str, ...]
    shapes: tuple[str, ...]
    role: UserRole = UserRole.READER
    reads_files: bool = False

    @property
    def has_table(self) -> bool:
        """Whether the answer is sent as a table, too."""
        return not self.commands and table_of(self.question) is not None


def _route(path: str, question: type[Question[Any]], commands: str, shapes: str) -> QuestionRoute:
    return QuestionRoute(path, question, tuple(commands.split()), tuple(shapes.split()))


def _of_files(
    path: str, question: type[Question[Any]], command: str, shape: str, role: UserRole
) -> QuestionRoute:
    return QuestionRoute(path, question, (command,), (shape,), role, reads_files=True)


_ANALYST, _READER = UserRole.ANALYST, UserRole.READER
_TENSOR = "/runs/{run}/tensor"

_WRITTEN = (
    _route("/runs", EntriesQuestion, "runs", "RunsAnswer"),
    _route("/runs/{run}", RunQuestion, "analyse", "RunAnswer"),
    _route("/runs/{run}/ops", OpsQuestion, "ops", "OpsAnswer"),
    _route("/runs/{run}/op", OpQuestion, "lineage ops", "OpAnswer"),
    _route("/runs/{run}/origins", OriginsQuestion, "origins", "OriginsOfRun ExplainedOrigins"),
    _route("/runs/{run}/findings", FindingsQuestion, "advise", "FindingsAnswer"),
    _route("/runs/{run}/trace", TraceQuestion, "trace", "TraceAnswer"),
    _route("/runs/{run}/roles", RolesQuestion, "roles", "RolesAnswer"),
    _route("/runs/{run}/advice", AdviceQuestion, "advise", "AdviceAnswer"),
    _route("/runs/{run}/lineage", LineageQuestion, "lineage", "LineageAnswer"),
    _route("/runs/{run}/unmatched", UnmatchedQuestion, "lineage", "UnmatchedAnswer"),
    _route("/runs/{run}/between", BetweenQuestion, "between", "BetweenAnswer"),
    _route("/runs/{run}/blame", KeptBlameQuestion, "blame", "BlameAnswer"),
    _route("/runs/{run}/minimize", KeptMinimizeQuestion, "minimize", "MinimizeAnswer"),
    _of_files("/runs/{run}/submodel", SubmodelQuestion, "submodel", "PartAnswer", _READER),
    _of_files(_TENSOR, TensorQuestion, "tensor", "TensorAnswer", _ANALYST),
    _of_files(f"{_TENSOR}/values", TensorSliceQuestion, "tensor", "TensorSlice", _ANALYST),
    _of_files(
        f"{_TENSOR}/histogram", TensorHistogramQuestion, "tensor", "TensorHistogram", _ANALYST
    ),
    _route("/graphs/{run}/ops", OpsQuestion, "ops", "OpsAnswer"),
    _route("/graphs/{run}/op", OpQuestion, "lineage ops", "OpAnswer"),
    _route("/graphs/{run}/lineage", LineageQuestion, "lineage", "LineageAnswer"),
    _route("/graphs/{run}/submodel", SubmodelQuestion, "submodel", "PartAnswer"),
    _route("/graphs/{run}/between", BetweenQuestion, "between", "BetweenAnswer"),
    _route("/changes", ChangesQuestion, "compare-runs", "ChangesAnswer"),
    _route("/notes", NotesQuestion, "lineage", "NotesAnswer"),
    _route("/baselines", BaselinesQuestion, "runs", "BaselinesAnswer"),
)


def question_routes() -> list[QuestionRoute]:
    """The addresses of all questions; those of other packages come last, so that they take no
    address of ours."""
    routes = list(_WRITTEN)
    for kind in all_questions().values():
        about_run = any(field.name == "run" for field in fields_of(kind))
        path = kind.path or (f"/runs/{{run}}/{kind.name}" if about_run else f"/{kind.name}")
        shapes = (answer_of(kind).__name__,)
        routes.append(QuestionRoute(path, kind, (), shapes))
        if kind.graphs:
            routes.append(QuestionRoute(path.replace("/runs/", "/graphs/"), kind, (), shapes))
    return routes
