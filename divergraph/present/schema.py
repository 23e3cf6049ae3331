"""JSON Schemas of what commands print with ``--json``.

They are made of the answers of questions, of the declarations in ``answers.txt`` and of the records
behind both. ``python -m divergraph.present.schema --write`` writes the shipped
``schemas/<command>.json``; a test fails if they differ from the declarations.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from divergraph.ask.question import Question, answer_of, shapes_of
from divergraph.ask.registry import own_names, own_question, plugged_questions
from divergraph.present.declarations import (
    DeclaredObject,
    object_called,
    object_of,
    text_commands,
    text_objects,
)
from graphstore import model
from graphstore.errors import UnknownNameError

Schema: TypeAlias = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[str, Schema] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "number": {"type": ["number", "null"]},
    "str": {"type": "string"},
    "any": {},
}


@cache
def commands() -> Mapping[str, tuple[str, ...]]:
    """Our commands whose JSON is declared, and the names of the objects each may print."""
    return dict(sorted({**_shapes(map(own_question, own_names())), **text_commands()}.items()))


@cache
def _plugged() -> Mapping[str, tuple[str, ...]]:
    """The same of questions of other packages."""
    return _shapes(plugged_questions().values())


def _shapes(questions: Iterable[type[Question[Any]]]) -> dict[str, tuple[str, ...]]:
    """By command what it answers; of commands that ask a question only."""
    shapes = {}
    for kind in questions:
        if not kind.shapes:
            object_of(answer_of(kind))
        if not kind.command:
            shapes[kind.name] = shapes_of(kind)
    return shapes


@cache
def answers() -> Mapping[str, DeclaredObject]:
    """Every declared object of ours by name."""
    objects: dict[str, DeclaredObject] = {}
    names = [*text_objects(), *(name for shapes in commands().values() for name in shapes)]
    while names:
        name = names.pop()
        if name not in objects:
            objects[name] = object_called(name)
            kinds = " ".join(field.type for field in objects[name].fields)
            names += _objects_in(f"{kinds} {objects[name].text}")
    return dict(sorted(objects.items()))


def _objects_in(kinds: str) -> Iterator[str]:
    """The objects that declared types name, but for records of the model without notes."""
    for word in re.findall(r'(?<!")\b[A-Z]\w+', kinds):
        if word in text_objects() or not hasattr(model, word):
            yield word


def shipped_schema(command: str) -> str:
    """The JSON Schema of what *command* prints, as text.

    Raises:
        UnknownNameError: there is no such command.
    """
    if command not in commands():
        if command not in _plugged():
            raise UnknownNameError("command", command)
        return schema_text(command)
    place = files("divergraph.present").joinpath(f"schemas/{command}.json")
    return place.read_text(encoding="utf-8")


def schema_text(command: str) -> str:
    """The same, made of the declarations."""
    schemas: dict[str, Schema] = {}
    roots = [_schema(name, schemas) for name in {**commands(), **_plugged()}[command]]
    schema = {
        "$schema": _DIALECT,
        "title": f"divergraph {command} --json",
        **(roots[0] if len(roots) == 1 else {"anyOf": roots}),
        "$defs": dict(sorted(schemas.items())),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def answer_schemas(names: Iterable[str]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """What an OpenAPI description says of the declared objects *names*: those and all they are made
    of, by name, and a reference to each of *names*."""
    commands(), _plugged()  # the records of questions have their names from then on
    schemas: dict[str, Schema] = {}
    roots = {name: _schema(name, schemas) for name in names}
    text = json.dumps([schemas, roots]).replace("#/$defs/", "#/components/schemas/")
    objects, references = json.loads(text)
    return dict(sorted(objects.items())), references


def _schema(kind: str, schemas: dict[str, Schema]) -> Schema:
    """The schema of a declared type; the objects it refers to are added to *schemas*."""
    if kind.endswith("?"):
        inner = _schema(kind[:-1], schemas)
        if set(inner) == {"type"} and isinstance(inner["type"], str):
            return {"type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}
    if kind.startswith("["):
        return {"type": "array", "items": _schema(kind[1:-1], schemas)}
    if kind.startswith("{"):
        key, _, value = kind[1:-1].partition(": ")
        names = {} if key == "str" else {"propertyNames": _schema(key, schemas)}
        return {"type": "object", **names, "additionalProperties": _schema(value, schemas)}
    if kind.startswith('"'):
        return {"enum": re.findall(r'"([^"]+)"', kind)}
    if kind in _PLAIN:
        return _PLAIN[kind]
    record = getattr(model, kind, None)
    if isinstance(record, type) and issubclass(record, Enum):
        return {"enum": [choice.value for choice in record]}
    if kind not in schemas:
        schemas[kind] = {}
        declared = object_called(kind)
        head = {"description": declared.notes["*"]} if "*" in declared.notes else {}
        schemas[kind] = head | {
            "type": "object",
            "properties": {
                field.name: _schema(field.type, schemas)
                | ({"description": field.note} if field.note else {})
                for field in declared.fields
            },
            "required": [field.name for field in declared.fields],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind}"}


def fields_of(name: str) -> dict[str, str]:
    """The fields of an object by name, with their declared types."""
    return {field.name: field.type for field in object_called(name).fields}


def write_all(folder: Path) -> None:
    """Write the schema of every command to *folder*, and remove others."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        if path.stem not in commands():
            path.unlink()
    for command in commands():
        (folder / f"{command}.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("give --write to write the shipped schemas")
    write_all(Path(__file__).parent / "schemas")
