"""What a question is, and how one is made of the values of options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore

Answer = TypeVar("Answer")
AnyQuestion = TypeVar("AnyQuestion", bound="Question[Any]")


class Question(ABC, Generic[Answer]):
    """A question to a store: a frozen dataclass whose fields are its parameters.

    Fields have the names of the parameters of the command that asks it.
    """

    __slots__ = ()

    @abstractmethod
    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Answer:
        """The answer; *cancellation* stops what the database computes for it.

        Raises:
            UnknownNameError: no such run, graph or op.
            InputError: the parameters do not fit the run.
        """

    @abstractmethod
    def json(self, answer: Answer) -> Mapping[str, Json]:
        """What the command prints of *answer* with ``--json``."""


def question_of(kind: type[AnyQuestion], values: Mapping[str, Any]) -> AnyQuestion:
    """The question whose parameters are among *values*, those of a command by name."""
    hints = _types(kind)
    taken = {field.name: values[field.name] for field in fields(kind) if field.name in values}  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], value) for name, value in taken.items()})


@cache
def _types(kind: type) -> Mapping[str, Any]:
    """The types of a question's fields; Python compiles their texts each time it is asked."""
    return get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    """Choices of a command are texts; a question has the enum."""
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value
