"""What follows from the record of an answer: its JSON, and that as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin

from divergraph.ask.question import Answer, Question, fields_of
from divergraph.present.computed_fields import COMPUTED, metrics_json, origins_key
from divergraph.present.declarations import (
    DeclaredObject,
    ObjectField,
    object_called,
    object_of,
    plain_type,
    text_objects,
)
from divergraph.present.json_text import Json, json_text, listing_parts, number, plain_json
from graphstore import model
from graphstore.model import MetricSet, Run
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """What the objects in an answer refer to by ``@name``: the parameters that it was asked with,
    and its own attributes."""

    answer: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """The parameter or attribute of this name, None if there is none."""
        if name in self.parameters:
            return self.parameters[name]
        return getattr(self.answer, name, None)


_Encoder: TypeAlias = Callable[[Any, WholeAnswer], Json]


def answer_json(record: Any, name: str = "", **parameters: Any) -> dict[str, Json]:
    """A record as JSON: the object *name*, by default the first that is declared of its class.

    *parameters* are what the declaration takes from the question.
    """
    declared = object_called(name) if name else object_of(type(record))
    return _object_encoder(declared)(record, WholeAnswer(record, parameters))


def json_of(question: Question[Answer], answer: Answer) -> Mapping[str, Json]:
    """The JSON of an answer; one that is JSON already, as it is."""
    if isinstance(answer, Mapping):
        return answer
    parameters = {entry.name: getattr(question, entry.name) for entry in fields_of(type(question))}
    return answer_json(answer, question.shape(), **parameters)


@cache
def _object_encoder(declared: DeclaredObject) -> Callable[[Any, WholeAnswer], dict[str, Json]]:
    parts = [
        (
            entry.name,
            attrgetter(entry.path) if entry.path.isidentifier() else None,
            entry.path.split("."),
            _field_encoder(entry),
            _missing(entry),
            entry.empty_is_null,
        )
        for entry in declared.fields
    ]

    # A list may have a million ops of twenty fields: no more calls than needed.
    def encode(record: Any, top_answer: WholeAnswer) -> dict[str, Json]:
        shape: dict[str, Json] = {}
        for name, read, path, encode_value, missing, empty_is_null in parts:
            value = _led(record, path, top_answer) if read is None else read(record)
            if empty_is_null and (value == "" or (type(value) is int and value < 0)):
                value = None
            if value is None:
                value = missing if missing is None else missing()
            elif encode_value is not None:
                value = encode_value(value, top_answer)
            shape[name] = value
        return shape

    return encode


def _missing(entry: ObjectField) -> Callable[[], Json] | None:
    """What makes an empty list or object where there is no value; None of those that are null."""
    return None if entry.type.endswith("?") else {"[": list, "{": dict}.get(entry.type[0])


def _led(record: Any, path: list[str], top_answer: WholeAnswer) -> Any:
    """What *path* leads to from a record; None where something on the way is missing."""
    value = record
    for segment in path:
        if segment.endswith("()"):
            value = COMPUTED[segment[:-2]](value)
        elif segment[0] == "@":
            named = top_answer.get(segment[1:])
            value = named if value is record else named.get(value)
        elif value is not None:
            value = getattr(value, segment)
    return value


def _field_encoder(entry: ObjectField) -> _Encoder | None:
    """What writes the value of a field; None where it is JSON already."""
    if entry.path.endswith("()"):
        return None
    name = entry.type.strip("[]?")
    if name not in text_objects() and not (entry.hint is None and hasattr(model, name)):
        return _plain if entry.hint is None else _encoder(plain_type(entry.hint))
    one = _later(object_called(name))
    if not entry.type.startswith("["):
        return one
    kind: type[Any] = plain_type(entry.hint)
    if is_dataclass(kind) and not issubclass(kind, Sequence):  # a list of the one there is
        return lambda value, top_answer: [one(value, top_answer)]
    return lambda values, top_answer: [one(value, top_answer) for value in values]


def _later(declared: DeclaredObject) -> _Encoder:
    """The encoder of an object, made when it is first needed: a record may hold one of its kind."""

    def encode(value: Any, top_answer: WholeAnswer) -> Json:
        return _object_encoder(declared)(value, top_answer)

    return encode


def _plain(value: Any, top_answer: WholeAnswer) -> Json:
    if isinstance(value, Mapping):
        return {str(plain_json(name)): _plain(entry, top_answer) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, top_answer) for entry in value]
    return (
        _object_encoder(object_of(type(value)))(value, top_answer)
        if is_dataclass(value)
        else plain_json(value)
    )


@cache
def _encoder(kind: Any) -> _Encoder | None:
    """What writes values of a type; None where they are JSON already."""
    if kind in (str, int, bool):
        return None
    if kind is float:
        return lambda value, _: number(value)
    if kind is Run:
        return lambda run, _: run.name
    if kind is MetricSet:
        return lambda metrics, _: metrics_json(metrics)
    origin = get_origin(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        name, entry = (_encoder(plain_type(part)) or _same for part in get_args(kind))
        return lambda values, top_answer: {
            str(name(key, top_answer)): entry(value, top_answer) for key, value in values.items()
        }
    entries = [part for part in get_args(kind) if part is not Ellipsis]
    if origin is not None and len(entries) == 1:
        return _list_encoder(_encoder(plain_type(entries[0])))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value, _: value.value
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return lambda value, _: str(value)
    if isinstance(kind, type) and is_dataclass(kind):
        return _later(object_of(kind))
    return _plain


def _list_encoder(entry: _Encoder | None) -> _Encoder:
    if entry is None:
        return lambda values, _: list(values)
    return lambda values, top_answer: [
        None if value is None else entry(value, top_answer) for value in values
    ]


def _same(value: Any, _: WholeAnswer) -> Json:
    json: Json = value
    return json


class ListedOp(NamedTuple):
    """An op as it stands in what ``ops`` prints, and the origins of its error, which stand there
    once for all ops that have them."""

    text: str
    origins: tuple[str, ...]


def listed_op(row: OpRow) -> ListedOp:
    """An op for :func:`ops_parts`."""
    return ListedOp(json_text(answer_json(row, "NotedListedOp"), 4), row.origins)


def ops_parts(run: str, ops: Iterable[ListedOp]) -> Iterator[str]:
    """What ``ops`` prints of a run or graph, part by part."""
    origins_by_key: dict[str, Json] = {}

    def texts() -> Iterator[str]:
        for op in ops:
            if (key := origins_key(op.origins)) is not None and key not in origins_by_key:
                origins_by_key[key] = list(op.origins)
            yield op.text

    return listing_parts({"run": run}, "ops", texts(), {"origins": origins_by_key})


class AnswerFact(NamedTuple):
    """A field of an answer, in words."""

    title: str
    text: str


class AnswerTable(NamedTuple):
    """A list of objects in an answer: the names of their fields, and their values in words.

    ``depths`` say of each row how far it is below the first of a tree, 0 where there is none;
    ``nested`` are the columns whose values are objects or lists of them: many fields in a cell.
    """

    title: str
    names: tuple[str, ...]
    rows: list[list[str]]
    depths: tuple[int, ...]
    nested: frozenset[str] = frozenset()

    def telling(self) -> AnswerTable:
        """It without the columns that are empty in all rows, or say what one before them says."""
        columns = dict(zip(self.names, zip(*self.rows, strict=True), strict=True))
        kept: dict[str, tuple[str, ...]] = {}
        for name, column in columns.items():
            repeats = len(column) > 1 and column in kept.values()
            if {*column} != {"-"} and not repeats:
                kept[name] = column
        rows = [list(row) for row in zip(*kept.values(), strict=True)]
        return self._replace(names=tuple(kept), rows=rows) if kept else self


def in_tree(rows: Sequence[Mapping[str, Json]]) -> list[tuple[Mapping[str, Json], int]]:
    """*rows*, of which each names the ``number`` of its ``parent`` or none, behind the one that led
    to them, with their depth from 0 on."""
    children: dict[Json, list[Mapping[str, Json]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    tree, waiting = [], [(row, 0) for row in reversed(children.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        tree.append((row, depth))
        waiting += [(child, depth + 1) for child in reversed(children.get(row["number"], []))]
    return tree


def answer_parts(shape: Mapping[str, Json], title: str = "") -> Iterator[AnswerFact | AnswerTable]:
    """An answer's JSON as pages and plain text show it, field by field."""
    for name, value in shape.items():
        words = f"{title} {name.replace('_', ' ')}".strip()
        if isinstance(value, dict):
            yield from answer_parts(value, words)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            rows: list[tuple[Mapping[str, Json], int]]
            rows = [(row, 0) for row in value if isinstance(row, dict)]
            names = tuple(rows[0][0])
            if {"number", "parent"} <= {*names}:
                rows = in_tree([row for row, _ in rows])
            cells = [[_text(row[name]) for name in names] for row, _ in rows]
            depths = tuple(depth for _, depth in rows)
            nested = {name for name in names for row, _ in rows if _has_objects(row[name])}
            yield AnswerTable(words, names, cells, depths, frozenset(nested))
        else:
            yield AnswerFact(words, _text(value))


def _has_objects(value: Json) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_objects, value)))


def json_lines(shape: Mapping[str, Json]) -> list[str]:
    """An answer's JSON as plain text: a line a field, a table below the names of its columns."""
    return [line for part in answer_parts(shape) for line in part_lines(part)]


def part_lines(part: AnswerFact | AnswerTable) -> list[str]:
    """A part of an answer as plain text."""
    if isinstance(part, AnswerFact):
        return [f"{part.title}: {part.text}"]
    cells = [part.names, *part.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return [f"{part.title}: {len(part.rows)}", *lines]


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
