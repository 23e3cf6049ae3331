"""JSON Schemas of what commands print with ``--json``.

They are made of the answers of questions, of the declarations in ``json/answers.txt`` and of the
records of the model. ``python
-m divergraph.present.schema --write`` writes the shipped ``schemas/<command>.json``; a test fails
if they differ from the declarations.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin

from divergraph.ask.question import Question, answer_of, shapes_of
from divergraph.ask.registry import own_names, own_question, plugged_questions
from divergraph.present.declared_answer import declared_objects
from graphstore import model
from graphstore.errors import UnknownNameError
from graphstore.model import ErrorSplit, Figures, Metric, MetricSet
from graphstore.schema.codec import declared

Schema: TypeAlias = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[str, Schema] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": ["number", "null"]},
    "number": {"type": ["number", "null"]},
    "str": {"type": "string"},
    "any": {},
}
_FIELD = re.compile(r"(\w+): ((?:[^,{]|\{[^}]*\})+)|\*(\w+)")


class DeclaredAnswer(NamedTuple):
    """A declared object: its fields, and the notes on them by name (``*``: on all)."""

    fields: str
    notes: Mapping[str, str]


@cache
def _declarations() -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, DeclaredAnswer]]:
    """(by command the names of its answers, by name an object)."""
    text = files("divergraph.present.json").joinpath("answers.txt").read_text(encoding="utf-8")
    _, commands, *objects = text.split("\n\n")
    answers = (line.split(": ") for line in commands.splitlines())
    heads = (block.strip().partition("\n") for block in objects)
    by_command = {command: tuple(names.split(" | ")) for command, names in answers}
    by_name = {name: _answer(body) for name, _, body in heads}
    for name in own_names():
        _declare(own_question(name), by_command, by_name)
    return dict(sorted(by_command.items())), by_name


def _declare(
    kind: type[Question[Any]],
    by_command: dict[str, tuple[str, ...]],
    by_name: dict[str, DeclaredAnswer],
) -> None:
    """Add what a question answers; a command that is written by hand may answer more."""
    if not kind.command:
        by_command.setdefault(kind.name, shapes_of(kind))
    if kind.shapes:
        return
    for name, declared_object in declared_objects(answer_of(kind)).items():
        by_name[name] = DeclaredAnswer(*declared_object)


@cache
def _plugged() -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, DeclaredAnswer]]:
    """The same of questions of other packages."""
    by_command: dict[str, tuple[str, ...]] = {}
    by_name: dict[str, DeclaredAnswer] = {}
    for kind in plugged_questions().values():
        _declare(kind, by_command, by_name)
    return by_command, by_name


def _answer(body: str) -> DeclaredAnswer:
    fields, *notes = (" ".join(part.split()) for part in body.split("-- "))
    said = (note.partition(": ") if note[0] != "*" else ("*", "", note[2:]) for note in notes)
    return DeclaredAnswer(
        fields, {name: text for names, _, text in said for name in names.split(", ")}
    )


def commands() -> Mapping[str, tuple[str, ...]]:
    """Our commands whose JSON is declared, and the names of the objects each may print."""
    return _declarations()[0]


def answers() -> Mapping[str, DeclaredAnswer]:
    """Every declared object of ours by name."""
    return _declarations()[1]


def _declared(name: str) -> DeclaredAnswer | None:
    return answers().get(name) or _plugged()[1].get(name)


def shipped_schema(command: str) -> str:
    """The JSON Schema of what *command* prints, as text.

    Raises:
        UnknownNameError: there is no such command.
    """
    if command not in commands():
        if command not in _plugged()[0]:
            raise UnknownNameError("command", command)
        return schema_text(command)
    place = files("divergraph.present").joinpath(f"schemas/{command}.json")
    return place.read_text(encoding="utf-8")


def schema_text(command: str) -> str:
    """The same, made of the declarations."""
    found: dict[str, Schema] = {}
    roots = [_schema(name, found) for name in {**commands(), **_plugged()[0]}[command]]
    schema = {
        "$schema": _DIALECT,
        "title": f"divergraph {command} --json",
        **(roots[0] if len(roots) == 1 else {"anyOf": roots}),
        "$defs": dict(sorted(found.items())),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def answer_schemas(names: Iterable[str]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """What an OpenAPI description says of the declared objects *names*: those and all they are made
    of, by name, and a reference to each of *names*."""
    found: dict[str, Schema] = {}
    roots = {name: _schema(name, found) for name in names}
    text = json.dumps([found, roots]).replace("#/$defs/", "#/components/schemas/")
    objects, references = json.loads(text)
    return dict(sorted(objects.items())), references


def _schema(kind: str, found: dict[str, Schema]) -> Schema:
    """The schema of a declared type; the objects it refers to are added to *found*."""
    if kind.endswith("?"):
        inner = _schema(kind[:-1], found)
        if set(inner) == {"type"} and isinstance(inner["type"], str):
            return {"type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}
    if kind.startswith("["):
        return {"type": "array", "items": _schema(kind[1:-1], found)}
    if kind.startswith("{"):
        key, _, value = kind[1:-1].partition(": ")
        names = {} if key == "str" else {"propertyNames": _schema(key, found)}
        return {"type": "object", **names, "additionalProperties": _schema(value, found)}
    if kind.startswith('"'):
        return {"enum": re.findall(r'"([^"]+)"', kind)}
    if kind in _PLAIN:
        return _PLAIN[kind]
    record = getattr(model, kind, None)
    if isinstance(record, type) and issubclass(record, Enum):
        return {"enum": [each.value for each in record]}
    if kind not in found:
        found[kind] = {}
        types = fields_of(kind)
        notes = _notes(kind)
        whole = {"description": notes["*"]} if "*" in notes else {}
        found[kind] = whole | {
            "type": "object",
            "properties": {
                name: _schema(of, found) | ({"description": notes[name]} if name in notes else {})
                for name, of in types.items()
            },
            "required": list(types),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind}"}


def fields_of(name: str) -> dict[str, str]:
    """The fields of an object or record by name, with their declared types.

    Inherited fields come first.
    """
    declared_here = _declared(name)
    if declared_here is None or not declared_here.fields:
        return _record_fields(getattr(model, name))
    fields: dict[str, str] = {}
    for field, kind, base in _FIELD.findall(declared_here.fields):
        fields |= fields_of(base) if base else {field: kind}
    return fields


def _notes(name: str) -> dict[str, str]:
    declared_here = _declared(name)
    if declared_here is None:
        return {}
    bases = [base for _, _, base in _FIELD.findall(declared_here.fields) if base]
    taken = {field: text for base in bases for field, text in _notes(base).items() if field != "*"}
    return {**taken, **declared_here.notes}


def _record_fields(record: Any) -> dict[str, str]:
    """The fields of a record as the JSON has them."""
    if record is MetricSet:
        texts = (Metric.STANDARD_DEVIATION,)
        return {metric.value: "str?" if metric in texts else "number" for metric in Metric}
    fields = {name: _declared_type(kind) for name, kind in declared(record).items()}
    if record is ErrorSplit:  # an empty text is null; then the names of infinite numbers
        texts_of = {name: "str?" for name, kind in fields.items() if kind == "str"}
        return {**fields, **texts_of, "infinite": "[str]"}
    if record is Figures:  # places are indices; the cosine's distance stands among the metrics
        del fields["cosine_distance"]
        fields |= {"first_bad": "[int]?", "worst": "[int]?", "where_bad": "str?"}
    return fields


def _declared_type(kind: Any) -> str:
    inner = [each for each in get_args(kind) if each not in (NoneType, Ellipsis)]
    if get_origin(kind) is tuple:
        return f"[{_declared_type(inner[0])}]"
    optional = "?" if inner and inner != [float] else ""
    name: str = (inner[0] if inner else kind).__name__
    return name + optional


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
