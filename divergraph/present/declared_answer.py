"""What follows from the dataclass of an answer: its JSON, and what schemas say of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple, get_args, get_origin

from divergraph.ask.question import Answer, Field, Question, fields_of
from divergraph.present.json.memory import noted_row_json
from divergraph.present.json.shapes import (
    Json,
    finding_json,
    link_json,
    metrics_json,
    plain_json,
    record_json,
    split_json,
    tensor_json,
)
from graphstore import model
from graphstore.model import (
    ErrorSplit,
    Finding,
    InputMismatch,
    LineageLink,
    MetricSet,
    Run,
    TensorRef,
)
from graphstore.op_row import OpRow


class WrittenRecord(NamedTuple):
    """How a record of the model is written where its fields are not its JSON; ``name`` is that of
    its declaration."""

    name: str
    json: Callable[[Any], Json]


def _mismatch_json(mismatch: InputMismatch) -> Json:
    return record_json(mismatch, null=("op", "tensor", "relation"))


_WRITTEN: Mapping[type, WrittenRecord] = {
    ErrorSplit: WrittenRecord("ErrorSplit", split_json),
    LineageLink: WrittenRecord("LinkEntry", link_json),
    MetricSet: WrittenRecord("MetricSet", metrics_json),
    OpRow: WrittenRecord("NotedOpEntry", noted_row_json),
    Finding: WrittenRecord("FindingEntry", finding_json),
    InputMismatch: WrittenRecord("InputDifference", _mismatch_json),
    Run: WrittenRecord("str", lambda run: run.name),
    TensorRef: WrittenRecord("TensorName", tensor_json),
}
_PLAIN = {bool: "bool", int: "int", float: "number", str: "str", Any: "any"}


class DeclaredObject(NamedTuple):
    """An object of JSON: its fields as ``answers.txt`` writes them, and what is said of them."""

    fields: str
    notes: Mapping[str, str]


def answer_json(answer: object) -> dict[str, Json]:
    """An answer as JSON: its fields in their order."""
    shape: dict[str, Json] = {}
    for field in fields_of(type(answer)):
        value = getattr(answer, field.name)
        shape |= answer_json(value) if field.about.is_flat else {field.name: _json(value)}
    return shape


def _json(value: Any) -> Json:
    if (written := _WRITTEN.get(type(value))) is not None:
        return written.json(value)
    if isinstance(value, Mapping):
        return {str(plain_json(name)): _json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json(entry) for entry in value]
    return answer_json(value) if is_dataclass(value) else plain_json(value)


def declared_objects(kind: type[Any]) -> dict[str, DeclaredObject]:
    """By name, the object of JSON that a dataclass becomes, and those in it."""
    fields = fields_of(kind)
    types = map(_declared, fields)
    notes = {field.name: field.about.help for field in fields if field.about.help}
    inner = [entry for field in fields for entry in _records(field.kind)]
    objects = {kind.__name__: DeclaredObject(", ".join(types), notes)}
    for record in inner:
        objects |= declared_objects(record)
    return objects


def _declared(field: Field) -> str:
    if field.about.is_flat:
        return f"*{field.kind.__name__}"
    null = "?" if field.optional and field.kind is not float else ""
    return f"{field.name}: {_type(field.kind)}{null}"


def _type(kind: Any) -> str:
    """The type as ``answers.txt`` writes it."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _WRITTEN:
        return _WRITTEN[kind].name
    origin = get_origin(kind)
    if origin is not None and issubclass(origin, Mapping):
        name, entry = get_args(kind)
        return f"{{{_type(name)}: {_type(entry)}}}"
    if origin is not None:
        return f"[{_type(get_args(kind)[0])}]"
    if issubclass(kind, Enum) and not _is_of_model(kind):
        return " | ".join(f'"{choice.value}"' for choice in kind)
    return "str" if issubclass(kind, PurePath) else str(kind.__name__)


def _records(kind: Any) -> list[type[Any]]:
    """The dataclasses in a type that are declared by themselves only."""
    inner = [record for part in get_args(kind) for record in _records(part)]
    if isinstance(kind, type) and is_dataclass(kind) and kind not in _WRITTEN:
        return [] if _is_of_model(kind) else [kind]
    return inner


def _is_of_model(kind: type) -> bool:
    return getattr(model, kind.__name__, None) is kind


class WrittenQuestion(Question[Answer]):
    """A question whose JSON is written by hand; ``shapes`` are its declarations."""

    __slots__ = ()

    @abstractmethod
    def json(self, answer: Answer) -> Mapping[str, Json]:
        """What the command prints of *answer* with ``--json``."""


def json_of(question: Question[Answer], answer: Answer) -> Mapping[str, Json]:
    """The JSON of an answer."""
    if isinstance(question, WrittenQuestion):
        return question.json(answer)
    return answer_json(answer)


class AnswerFact(NamedTuple):
    """A field of an answer, in words."""

    title: str
    text: str


class AnswerTable(NamedTuple):
    """A list of objects in an answer: the names of their fields, and their values in words."""

    title: str
    names: tuple[str, ...]
    rows: list[list[str]]


def answer_parts(shape: Mapping[str, Json], title: str = "") -> Iterator[AnswerFact | AnswerTable]:
    """An answer's JSON as pages and plain text show it, field by field."""
    for name, value in shape.items():
        words = f"{title} {name.replace('_', ' ')}".strip()
        if isinstance(value, dict):
            yield from answer_parts(value, words)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            rows = [row for row in value if isinstance(row, dict)]
            names = tuple(rows[0])
            yield AnswerTable(words, names, [[_text(row[name]) for name in names] for row in rows])
        else:
            yield AnswerFact(words, _text(value))


def json_lines(shape: Mapping[str, Json]) -> list[str]:
    """An answer's JSON as plain text: a line a field, a table below the names of its columns."""
    lines: list[str] = []
    for part in answer_parts(shape):
        if isinstance(part, AnswerFact):
            lines.append(f"{part.title}: {part.text}")
            continue
        cells = [part.names, *part.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines.append(f"{part.title}: {len(part.rows)}")
        lines += ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return lines


def _text(value: Json) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return format(value, ".4g")
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "-"
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(entry)}" for name, entry in value.items()) or "-"
    return str(value)
