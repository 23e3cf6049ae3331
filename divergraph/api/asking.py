"""Questions by their names, as methods: those that come with the program and others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from divergraph.api.rows import Rows

if TYPE_CHECKING:
    from divergraph.ask.question import Question
    from graphstore.contract import GraphStore


class Asking(ABC):
    """What can be asked by the name of a question; a question is a method, too."""

    def ask(self, question: str, **parameters: Any) -> Any:
        """The answer to the *question* of this name, a frozen dataclass.

        Raises:
            UnknownNameError: there is no such question.
            InputError: the parameters do not fit.

        >>> import divergraph as dg
        >>> dg.demo("runs")
        <Run 'demo': diverged, 1 origin>
        >>> with dg.open_store("runs") as store:
        ...     store.ask("recurring").diverged
        1
        """
        kind = _question(question)
        return self._answer(kind, parameters)

    def table(self, question: str, **parameters: Any) -> Rows[Any]:
        """The rows of the same answer.

        Raises:
            UnknownNameError: there is no such question.
            InputError: the answer has no table, or the parameters do not fit.
        """
        from divergraph.api.answer_table import answer_rows

        kind = _question(question)
        return answer_rows(kind, self._answer(kind, parameters))

    if not TYPE_CHECKING:  # a type checker is to notice names that are wrong

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """The question *name* with underscores, as a method."""
            from divergraph.ask.registry import all_questions

            question = name.replace("_", "-")
            if name.startswith("_") or question not in all_questions():
                raise AttributeError(
                    f"{type(self).__name__!r} has no attribute {name!r}", name=name
                )
            return partial(self.ask, question)

    def __dir__(self) -> list[str]:
        from divergraph.ask.registry import all_questions

        return [*super().__dir__(), *(name.replace("-", "_") for name in all_questions())]

    @abstractmethod
    def _asked(self) -> GraphStore:
        """The store that is asked."""

    def _own_parameters(self) -> Mapping[str, object]:
        """The parameters that are clear."""
        return {}

    def _answer(self, kind: type[Question[Any]], parameters: Mapping[str, Any]) -> Any:
        from divergraph.ask.question import fields_of, question_of
        from graphstore.errors import InputError

        names = [field.name for field in fields_of(kind)]
        own = {name: value for name, value in self._own_parameters().items() if name in names}
        if unknown := sorted(parameters.keys() - names):
            raise InputError(f"{kind.name} has no parameter {unknown[0]!r}", hint=", ".join(names))
        try:
            question = question_of(kind, {**own, **parameters})
        except TypeError as error:
            raise InputError(
                f"{kind.name}: {error}", hint=f"it takes {', '.join(names)}"
            ) from error
        return question.ask(self._asked())


def _question(name: str) -> type[Question[Any]]:
    from divergraph.ask.registry import all_questions
    from graphstore.errors import UnknownNameError

    questions = all_questions()
    if name not in questions:
        raise UnknownNameError("question", name, near=tuple(questions))
    return questions[name]
