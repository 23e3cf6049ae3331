"""Which address asks which question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divergraph.ask.question import Question, is_about_run, shapes_of, table_of
from divergraph.ask.registry import all_questions
from divergraph.server.tokens import UserRole

VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class QuestionRoute:
    """An address, and the question it asks."""

    path: str
    question: type[Question[Any]]

    @property
    def role(self) -> UserRole:
        """Who may ask, at least: values of tensors are for analysts."""
        return UserRole.ANALYST if self.question.shows_values else UserRole.READER

    @property
    def shapes(self) -> tuple[str, ...]:
        """The names of the objects of JSON that may be answered."""
        return shapes_of(self.question)

    @property
    def has_table(self) -> bool:
        """Whether the answer is sent as a table, too."""
        return table_of(self.question) is not None


def path_of(kind: type[Question[Any]]) -> str:
    """The address of a question below the version."""
    return kind.path or f"{'/runs/{run}' if is_about_run(kind) else ''}/{kind.name}"


def question_routes() -> list[QuestionRoute]:
    """The addresses of all questions; those of other packages come last, so that they take no
    address of ours."""
    routes = []
    for kind in all_questions().values():
        path = path_of(kind)
        routes.append(QuestionRoute(path, kind))
        if kind.graphs:
            routes.append(QuestionRoute(path.replace("/runs/", "/graphs/"), kind))
    return routes
