"""The parameters of a question over HTTP or of a tool: those of its command, checked as there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

import click

from divergraph.cli.question_command import QuestionArgument, parameters_of
from graphstore.errors import InputError


def is_required(kind: type, name: str) -> bool:
    """Whether the question cannot do without this field."""
    return next(field for field in fields(kind) if field.name == name).default is MISSING


def takes_several(param: click.Parameter) -> bool:
    """Whether *param* may be given more than once."""
    return param.multiple or param.nargs == -1


def public_name(param: click.Parameter) -> str:
    """What *param* is called in a URL: as on the command line, by the last of its long names."""
    if isinstance(param, click.Argument):
        return str(param.name).strip("_").replace("_", "-")
    *_, name = (opt for opt in param.opts if opt.startswith("--"))
    return name.removeprefix("--")


def said_of(param: click.Parameter) -> str | None:
    """What is said of *param*: its help; click knows none of arguments."""
    if isinstance(param, click.Option | QuestionArgument):
        return param.help
    return "The name of a run or imported graph." if param.name == "run" else None


def several(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a list of what *schema* allows."""
    return {"type": "array", "items": schema, "minItems": 1}


def type_schema(kind: click.ParamType[Any]) -> dict[str, Any]:
    """The JSON Schema of what a parameter of this type takes."""
    if isinstance(kind, click.Choice):
        return {"enum": list(kind.choices)}
    if isinstance(kind, click.IntRange | click.FloatRange):
        is_integer = isinstance(kind, click.IntRange)
        ends: dict[str, Any] = {}
        if kind.min is not None:
            ends["exclusiveMinimum" if kind.min_open else "minimum"] = kind.min
        if kind.max is not None:
            ends["exclusiveMaximum" if kind.max_open else "maximum"] = kind.max
        return {"type": "integer" if is_integer else "number", **ends}
    if isinstance(kind, click.types.BoolParamType):
        return {"type": "boolean"}
    return {"type": "string"}


def values_of(
    kind: type, pairs: Iterable[tuple[str, str]], path_values: Mapping[str, str]
) -> dict[str, Any]:
    """The values of a question's fields: *pairs* of the URL's query, and *path_values*.

    Raises:
        InputError: one is unknown, given twice, missing, or not what its command takes.
    """
    params = parameters_of(kind)
    allowed = {public_name(param): takes_several(param) for param in params.values()}
    texts = _texts(pairs, {name: many for name, many in allowed.items() if name not in path_values})
    values: dict[str, Any] = {}
    context = click.Context(click.Command("question"))
    for field, param in params.items():
        name = public_name(param)
        field_texts = [path_values[field]] if field in path_values else texts.get(name, [])
        if field_texts:
            read = tuple(_value(param, name, text, context) for text in field_texts)
            values[field] = read if allowed[name] else read[0]
        elif is_required(kind, field):
            raise InputError("a parameter is missing", where=name)
    return values


def plain_values(
    pairs: Iterable[tuple[str, str]], needed: tuple[str, ...], others: tuple[str, ...]
) -> dict[str, str]:
    """The texts of *pairs* in a URL's query where no command has such options; "" for one of the
    *others* that is not.

    Raises:
        InputError: one is unknown, given twice, or *needed* and missing.
    """
    texts = _texts(pairs, dict.fromkeys((*needed, *others), False))
    for name in needed:
        if name not in texts:
            raise InputError("a parameter is missing", where=name)
    return {name: texts.get(name, [""])[0] for name in (*needed, *others)}


def _texts(pairs: Iterable[tuple[str, str]], allowed: Mapping[str, bool]) -> dict[str, list[str]]:
    """What is given under each of the names *allowed*, which say whether there may be several."""
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        if name not in allowed:
            hint = f"it has {', '.join(sorted(allowed))}" if allowed else "it has none"
            raise InputError("there is no such parameter", where=name, hint=hint)
        if name in texts and not allowed[name]:
            raise InputError("a parameter is given twice", where=name)
        texts.setdefault(name, []).append(text)
    return texts


def _value(param: click.Parameter, name: str, text: str, context: click.Context) -> Any:
    try:
        return param.type.convert(text, param, context)
    except click.UsageError as error:
        raise InputError(error.message, where=name) from error
