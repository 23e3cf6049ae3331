"""The objects of JSON: the record each is made of, and its fields.

``answers.txt`` declares them; a record that it does not name is an object of all its fields, with
``Annotated`` texts as their notes. Types, and what writes the values, follow from the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from divergraph.ask.question import fields_of as record_fields
from graphstore import model
from graphstore.model import Metric, MetricSet, Run

_PLAIN = {bool: "bool", int: "int", float: "number", str: "str", Any: "any", object: "any"}
_NAMES: Mapping[type, str] = {MetricSet: "MetricSet", Run: "str"}
_NUMBERS = {int, float}
_FIELD = re.compile(
    r"(?P<flat>\*?)(?P<name>\w+)(?P<null>\??)(?:: (?P<type>(?:[^,={]|\{[^}]*\})+))?"
    r"(?: ?= (?P<path>[\w.()@]+))?"
)
_RECURSIVE = {"AttrValue": Any, "Evidence": Mapping[str, Any]}
"""Types of the model that refer to themselves; their values are JSON as they are."""


@dataclass(frozen=True, slots=True)
class ObjectField:
    """A field of an object of JSON, and where its value is in the record.

    ``type`` is written as in ``answers.txt``. ``path`` has attributes, ``@NAME`` of the whole
    answer and functions ``NAME()`` of :mod:`divergraph.present.computed_fields`. ``hint`` is the
    type of that value in Python, None where only ``type`` says it. ``empty_is_null``: an empty text
    or a negative number is null. ``note`` says what the field is.
    """

    name: str
    type: str
    path: str
    hint: Any = None
    empty_is_null: bool = False
    note: str = ""


@dataclass(frozen=True, eq=False)
class DeclaredObject:
    """An object: its fields as declared, the notes on them by name (``*``: on all), and the record
    it is made of as ``module:Class``, empty where a front end makes it by hand."""

    name: str
    text: str
    notes: Mapping[str, str]
    place: str

    @cached_property
    def fields(self) -> tuple[ObjectField, ...]:
        """Its fields in their order, those of flat ones in their places."""
        module, _, name = self.place.partition(":")
        record = getattr(import_module(module), name) if name else None
        if record is MetricSet:
            listed = _METRICS
        elif record is not None and not self.text:
            listed = tuple(_fields_of_record(record))
        else:
            parts = _FIELD.finditer(self.text)
            listed = tuple(field for part in parts for field in _declared(part, record))
        return tuple(
            replace(field, note=self.notes.get(field.name, field.note)) for field in listed
        )


_METRICS = tuple(
    ObjectField(
        metric.value, "str?" if metric is Metric.STANDARD_DEVIATION else "number", metric.value
    )
    for metric in Metric
)


@cache
def _texts() -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, DeclaredObject]]:
    """(by command the names of its answers, by name an object)."""
    text = files("divergraph.present").joinpath("answers.txt").read_text(encoding="utf-8")
    _, commands, *blocks = text.split("\n\n")
    answers = (line.split(": ") for line in commands.splitlines())
    objects = map(_parsed, blocks)
    return (
        {command: tuple(names.split(" | ")) for command, names in answers},
        {declared.name: declared for declared in objects},
    )


def _parsed(block: str) -> DeclaredObject:
    head, _, body = block.strip().partition("\n")
    name, _, place = head.partition(" of ")
    text, *notes = (" ".join(part.split()) for part in body.split("-- "))
    parts = (note.partition(": ") if note[0] != "*" else ("*", "", note[2:]) for note in notes)
    by_field = {field: words for names, _, words in parts for field in names.split(", ")}
    return DeclaredObject(name, text, by_field, place)


def text_commands() -> Mapping[str, tuple[str, ...]]:
    """By command the names of the objects it may print, as ``answers.txt`` lists them."""
    return _texts()[0]


def text_objects() -> Mapping[str, DeclaredObject]:
    """The objects of ``answers.txt`` by name."""
    return _texts()[1]


@cache
def _by_place() -> Mapping[str, DeclaredObject]:
    """The object a record becomes, the first one of several."""
    return {item.place: item for item in reversed([*text_objects().values()]) if item.place}


_RECORDS: dict[str, type[Any]] = {}
"""Records that the text does not name, by the name of their object: their class's."""


def object_of(record: Any) -> DeclaredObject:
    """The object that a record of this class becomes."""
    return _object_of(record)


@cache
def _object_of(record: Any) -> DeclaredObject:
    place = f"{record.__module__}:{record.__qualname__}"
    if (declared := _by_place().get(place)) is not None:
        return declared
    if not is_of_model(record):
        _RECORDS.setdefault(record.__name__, record)
    notes = {field.name: field.about.help for field in record_fields(record) if field.about.help}
    return DeclaredObject(record.__name__, "", notes, place)


def object_called(name: str) -> DeclaredObject:
    """The object *name*: of ``answers.txt``, of a record that was asked for, or of the model."""
    declared = text_objects().get(name)
    return declared or object_of(_RECORDS.get(name) or getattr(model, name))


def is_of_model(kind: type) -> bool:
    """Whether *kind* is a public record or enum of the model."""
    return getattr(model, kind.__name__, None) is kind


def _fields_of_record(record: type[Any]) -> Iterator[ObjectField]:
    """All fields of a record; of flat ones theirs."""
    for field in record_fields(record):
        if field.about.is_flat:
            yield from _within(object_of(field.kind), field.name)
        else:
            hint = _attribute_type(record, field.name)[0]
            yield ObjectField(field.name, _type(hint), field.name, hint)


def _declared(part: re.Match[str], record: type[Any] | None) -> tuple[ObjectField, ...]:
    """The field that a part of the text declares, or those of the object it takes over."""
    name, path = part["name"], part["path"] or part["name"]
    if part["flat"] and (name in text_objects() or hasattr(model, name)):
        return _within(object_called(name), part["path"] or "")
    assert record is not None or not part["flat"], f"{name} is no object"
    hint, is_optional = (None, False) if record is None else _hint(record, path)
    if part["flat"]:
        return _within(object_of(hint), path)
    if part["type"]:
        kind = part["type"].strip()
        return (ObjectField(name, kind, path, hint, kind in ("str?", "int?")),)
    assert hint is not None, f"nothing says the type of {name}"
    kind, is_empty = _type(hint), bool(part["null"])
    if (is_empty or is_optional) and kind != "number":
        kind = f"{kind.removesuffix('?')}?"
    return (ObjectField(name, kind, path, hint, is_empty),)


def _within(declared: DeclaredObject, path: str) -> tuple[ObjectField, ...]:
    """The fields of an object that *path* leads to."""
    return tuple(
        replace(field, path=f"{path}.{field.path}" if path and field.path[0] != "@" else field.path)
        for field in declared.fields
    )


def _hint(record: type[Any], path: str) -> tuple[Any, bool]:
    """The type of what *path* leads to, None if a function computes it, and whether something on
    the way may be missing."""
    kind: Any = record
    optional = False
    for segment in path.split("."):
        if segment[0] == "@" or segment.endswith("()"):
            return None, True
        kind, missing = _attribute_type(plain_type(kind), segment)
        optional = optional or missing
    return kind, optional


@cache
def _hints(record: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(record, localns=_RECURSIVE)


def _attribute_type(record: type[Any], name: str) -> tuple[Any, bool]:
    """The type of an attribute, and whether it may be None."""
    hint = _hints(record).get(name) if is_dataclass(record) else None
    if hint is None:
        read = getattr(record, name, None)
        hint = get_type_hints(read.fget)["return"] if isinstance(read, property) else None
    return hint, NoneType in get_args(hint)


def plain_type(hint: Any) -> Any:
    """A type without ``None`` and what is said of it; of an int or float, float."""
    while get_origin(hint) in (Annotated, Union, UnionType):
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
            continue
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        if len(kinds) > 1:
            return float if set(kinds) == _NUMBERS else Any
        hint = kinds[0]
    return hint


def _type(hint: Any) -> str:
    """A type of Python as ``answers.txt`` writes it."""
    null = "?" if NoneType in get_args(hint) and plain_type(hint) is not float else ""
    kind = plain_type(hint)
    if kind in _PLAIN or kind in _NAMES:
        return (_PLAIN.get(kind) or _NAMES[kind]) + null
    origin = get_origin(kind)
    if origin is not None and issubclass(origin, Mapping):
        name, entry = get_args(kind)
        return f"{{{_type(name)}: {_type(entry)}}}{null}"
    if origin is not None:
        return f"[{_type(get_args(kind)[0])}]{null}"
    if issubclass(kind, Enum) and not is_of_model(kind):
        return " | ".join(f'"{choice.value}"' for choice in kind) + null
    if is_dataclass(kind):
        return object_of(kind).name + null
    return ("str" if issubclass(kind, PurePath) else str(kind.__name__)) + null
