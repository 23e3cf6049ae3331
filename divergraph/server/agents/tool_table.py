"""Which tool asks which question. A tool is named as the command that prints the same; ``verdict``
is what ``compare`` printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from divergraph.ask.question import Question, help_of, question_of
from divergraph.ask.registry import all_questions
from divergraph.questions.cypher import NamedQueriesQuestion, RowsQuestion
from divergraph.questions.cypher_in_json import check_fields, cypher_question, cypher_schema
from divergraph.questions.lineages import LineageQuestion
from divergraph.questions.listings import EntriesQuestion, OpsQuestion
from divergraph.questions.propagation import AdviceQuestion, OriginsQuestion, TraceQuestion
from divergraph.questions.tensors import TensorQuestion
from divergraph.questions.verdicts import OpQuestion, RunQuestion
from divergraph.server.parameters import (
    is_required,
    parameters_of,
    public_name,
    said_of,
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
    """A question whose parameters are options of ``commands``, or of its own if there are none;
    ``more`` is said of its answer."""

    name: str
    kind: type[Question[Any]]
    commands: tuple[str, ...] = ()
    more: str = ""

    def says(self) -> str:
        """What the question asks: the first paragraph of what is said of it."""
        return f"{help_of(self.kind)} {self.more}".replace("``", "`").strip()

    def schema(self) -> dict[str, Any]:
        """The options of the command that the question has."""
        params = parameters_of(self.kind, self.commands)
        described = {}
        for param in params.values():
            said = said_of(param)
            about = {"description": said} if said else {}
            described[public_name(param)] = {**type_schema(param.type), **about}
        needed = [
            public_name(each) for name, each in params.items() if is_required(self.kind, name)
        ]
        return {
            "type": "object",
            "required": needed,
            "additionalProperties": False,
            "properties": described,
        }

    def question(self, given: Mapping[str, Any]) -> Question[Any]:
        """The question, its parameters checked as the command does."""
        texts = [(name, _typed(name, value)) for name, value in given.items()]
        return question_of(self.kind, values_of(self.kind, self.commands, texts, {}))


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
        f"{node.label}({' '.join(each.name for each in node.columns if _is_public(each.name))})"
        for node in NODES
        if node.label != "OpBlock"
    )


def _relationships() -> str:
    return ", ".join(
        f"({rel.source})-[:{rel.type} {{{' '.join(each.name for each in rel.columns)}}}]->"
        f"({rel.target})"
        for rel in RELS
    ).replace(" {}", "")


def _is_public(name: str) -> bool:
    """What the program keeps for itself is JSON."""
    return not name.endswith("_json")


_WRITTEN: tuple[AgentTool, ...] = (
    QuestionTool("runs", EntriesQuestion, ("runs",)),
    QuestionTool(
        "verdict",
        RunQuestion,
        ("analyse",),
        "Verdict, doubt about the sides, counts, worst tensors, and what was not compared.",
    ),
    QuestionTool("advise", AdviceQuestion, ("advise",)),
    QuestionTool("origins", OriginsQuestion, ("origins",)),
    QuestionTool("trace", TraceQuestion, ("trace",)),
    QuestionTool("ops", OpsQuestion, ("ops",)),
    QuestionTool("op", OpQuestion, ("op",)),
    QuestionTool("lineage", LineageQuestion, ("lineage",)),
    QuestionTool("tensor", TensorQuestion, ("tensor",)),
    QueryTool(),
    QuestionTool("queries", NamedQueriesQuestion, ("query",), "The tool query asks them."),
)


@cache
def all_tools() -> Mapping[str, AgentTool]:
    """The tools by name: those written here, and one for each question that is declared."""
    tools: dict[str, AgentTool] = {tool.name: tool for tool in _WRITTEN}
    for name, kind in all_questions().items():
        tools.setdefault(name, QuestionTool(name, kind))
    return tools
