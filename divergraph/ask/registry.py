"""Which questions there are: a module of ``divergraph.ask.questions`` is one, each entry point
``divergraph.questions`` of an installed package."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

from divergraph.ask import questions as own
from divergraph.ask.question import Question, answer_of, fields_of, help_of

ENTRY_POINT_GROUP = "divergraph.questions"
_OPTIONS = {"as_json", "limit", "output", "store"}
_LOG = logging.getLogger(__name__)


def own_names() -> list[str]:
    """The names of the questions that come with the program; none is loaded."""
    return [module.name.replace("_", "-") for module in iter_modules(own.__path__)]


@cache
def own_question(name: str) -> type[Question[Any]]:
    """One of them."""
    module = import_module(f"{own.__name__}.{name.replace('-', '_')}")
    question: type[Question[Any]] = module.QUESTION
    return question


@cache
def plugged_questions() -> Mapping[str, type[Question[Any]]]:
    """Those of other packages. One that is no declaration is logged and left out."""
    questions: dict[str, type[Question[Any]]] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        try:
            question = entry.load()
            _check(question)
            if question.name in (*own_names(), *questions):
                raise ValueError(f"there is a question {question.name!r}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - someone else's code: whatever it raises
            _LOG.warning("question %s (%s) is left out: %s", entry.name, entry.value, error)
        else:
            questions[question.name] = question
    return questions


def all_questions() -> Mapping[str, type[Question[Any]]]:
    """All of them by name, our own first."""
    return {**{name: own_question(name) for name in own_names()}, **plugged_questions()}


def _check(kind: type[Question[Any]]) -> None:
    """Return if all of the declaration is there.

    Raises:
        ValueError: something is not.
    """
    if not help_of(kind):
        raise ValueError("its docstring is empty")
    if re.fullmatch(r"[a-z][a-z0-9-]*", kind.name) is None:
        raise ValueError(f"{kind.name!r} is no name of a command")
    if own := _OPTIONS & {field.name for field in fields_of(kind)}:
        raise ValueError(f"every command has an option {min(own)!r}")
    fields_of(answer_of(kind))
