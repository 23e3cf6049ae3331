"""Questions whose JSON is not their answer's fields, and the JSON of any question."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from divergraph.ask.question import Answer
from divergraph.ask.question import Question as DeclaredQuestion
from divergraph.present.json.shapes import Json


class Question(DeclaredQuestion[Answer]):
    """A question whose JSON is written by hand."""

    __slots__ = ()

    @abstractmethod
    def json(self, answer: Answer) -> Mapping[str, Json]:
        """What the command prints of *answer* with ``--json``."""


def json_of(question: DeclaredQuestion[Answer], answer: Answer) -> Mapping[str, Json]:
    """The JSON of an answer."""
    if isinstance(question, Question):
        return question.json(answer)
    from divergraph.present.declared_answer import answer_json

    return answer_json(answer)
