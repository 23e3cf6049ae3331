"""The tools of agents: every question is one, of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from divergraph.api.cypher_in_json import check_fields, cypher_question, cypher_schema
from divergraph.ask.cypher_questions import RowsQuestion
from divergraph.ask.question import Question, help_of, question_of
from divergraph.ask.registry import all_questions
from divergraph.cli.question_command import parameters_of
from divergraph.server.parameters import (
    is_required,
    public_name,
    said_of,
    several,
    takes_several,
    type_schema,
    values_of,
)
from divergraph.server.settings import Limits
from graphstore.errors import InputError
from graphstore.schema.tables import NODES, RELS

_ROWS = Limits().page


class AgentTool(Protocol):
    """What an agent may ask."""

    @property
    def name(self) -> str:
        """What it is called by."""

    def says(self) -> str:
        """What it answers, for who chooses among tools."""

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""

    def question(self, given: Mapping[str, Any]) -> Question[Any]:
        """The question of these arguments.

        Raises:
            InputError: one is unknown, missing, or not what it should be.
        """


@dataclass(frozen=True, slots=True)
class QuestionTool:
    """A question; the tool has its parameters."""

    kind: type[Question[Any]]

    @property
    def name(self) -> str:
        """That of the question."""
        return self.kind.name

    def says(self) -> str:
        """What the question asks."""
        return help_of(self.kind).replace("``", "`")

    def schema(self) -> dict[str, Any]:
        """The parameters of the question."""
        params = parameters_of(self.kind)
        described = {}
        for param in params.values():
            shape, help_text = type_schema(param.type), said_of(param)
            about = {"description": help_text} if help_text else {}
            shape = several(shape) if takes_several(param) else shape
            described[public_name(param)] = {**shape, **about}
        needed = [
            public_name(param) for name, param in params.items() if is_required(self.kind, name)
        ]
        return {
            "type": "object",
            "required": needed,
            "additionalProperties": False,
            "properties": described,
        }

    def question(self, given: Mapping[str, Any]) -> Question[Any]:
        """The question, its parameters checked as the command does."""
        lists = {public_name(p) for p in parameters_of(self.kind).values() if takes_several(p)}
        texts = [
            (name, _typed(name, entry))
            for name, value in given.items()
            for entry in (value if name in lists and isinstance(value, list) else [value])
        ]
        return question_of(self.kind, values_of(self.kind, texts, {}))


def _typed(name: str, value: object) -> str:
    """*value* as it is typed on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError("it must be a text, a number or true or false", where=name)


class QueryTool:
    """Questions in Cypher."""

    name = "query"

    def says(self) -> str:
        """What can be asked, and about what."""
        return (
            f"{RowsQuestion.__doc__} Read-only Cypher. With run, $run, $device and $golden are the "
            f"ids of it and its graphs; Op.graph, Tensor.op and Metric.op, .tensor and .run hold "
            f"ids. Nodes: {_nodes()}. Relationships: {_relationships()}."
        )

    def schema(self) -> dict[str, Any]:
        """The fields of a question in Cypher."""
        return cypher_schema(_ROWS)

    def question(self, given: Mapping[str, Any]) -> Question[Any]:
        """The question of these fields."""
        check_fields(given, set(self.schema()["properties"]))
        return RowsQuestion(cypher_question(given, _ROWS))


def _nodes() -> str:
    return ", ".join(
        f"{node.label}({' '.join(filter(_is_public, [column.name for column in node.columns]))})"
        for node in NODES
        if node.label != "OpBlock"
    )


def _relationships() -> str:
    return ", ".join(
        f"({rel.source})-[:{rel.type} {{{' '.join(column.name for column in rel.columns)}}}]->"
        f"({rel.target})"
        for rel in RELS
    ).replace(" {}", "")


def _is_public(name: str) -> bool:
    """What the program keeps for itself is JSON."""
    return not name.endswith("_json")


@cache
def all_tools() -> Mapping[str, AgentTool]:
    """The tools by name: one for each question, and Cypher."""
    tools: list[AgentTool] = [*map(QuestionTool, all_questions().values()), QueryTool()]
    return {tool.name: tool for tool in tools}
