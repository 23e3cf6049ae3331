"""The command of a question: its parameters, JSON, table and exit code follow from the
declaration. A layout is there where the common text does not say it well."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin

import click

from divergraph.ask.question import Field, Parameter, Question, fields_of, question_of, table_of
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import (
    common,
    first_rows,
    limit_option,
    opened_to_read,
    say_more,
    shown_option,
)
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say_beside, say_json, say_lines
from divergraph.jobs.stage_times import timed
from divergraph.present.declared_answer import json_lines, json_of
from divergraph.present.json_text import json_text

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class TextLayout(NamedTuple):
    """The function that prints an answer as text: its module below ``divergraph.cli`` and name.

    ``options`` are those of the text alone, which it takes by name.
    """

    module: str
    name: str
    options: tuple[_Decorator, ...] = ()


LAYOUTS: Mapping[str, TextLayout] = {
    "between": TextLayout("text", "show_between"),
    "compare-runs": TextLayout(
        "ask.across_text", "show_changes", (shown_option("ops of each kind", 10),)
    ),
    "model": TextLayout("ask.across_text", "show_model", (shown_option("originals", 20),)),
    "regressions": TextLayout(
        "ask.across_text", "show_regressions", (shown_option("ops of each type", 10),)
    ),
    "roles": TextLayout("ask.propagation_text", "show_roles"),
    "ranks": TextLayout("ask.ranks_text", "show_ranks"),
    "recurring": TextLayout("ask.across_text", "show_recurring", (shown_option("of each", None),)),
}


class QuestionArgument(click.Argument):
    """An argument with help, which forms, agents and addresses show."""

    def __init__(
        self, name: str, kind: click.ParamType[Any], about: Parameter, required: bool, nargs: int
    ) -> None:
        super().__init__([name], type=kind, required=required, nargs=nargs, metavar=about.metavar)
        self.help = about.help


def question_command(kind: type[Question[Any]]) -> click.Command:
    """The command that asks *kind*."""
    layout, table = LAYOUTS.get(kind.name), table_of(kind)

    def ask(store: str | None, as_json: bool, output: Path | None = None, **values: Any) -> int:
        question = question_of(kind, values)
        with opened_to_read(store) as opened_store, timed("asking the store"):
            answer = question.ask(opened_store)
        with timed("writing the answer"):
            if output is not None:
                _write(question, answer, output)
            _print(question, answer, values, as_json=as_json)
        return question.outcome(answer).exit_code

    ask.__doc__ = inspect.cleandoc(kind.__doc__ or "") + _example(kind)
    decorators = [] if layout is None else [*layout.options]
    if table is not None:
        decorators += [] if decorators else [limit_option]
        decorators.append(_output_option)
    function: Any = common(ask)
    for decorator in reversed(decorators):
        function = decorator(function)
    command: click.Command = click.command(kind.name, params=[*parameters_of(kind).values()])(
        function
    )
    return command


def _example(kind: type[Question[Any]]) -> str:
    return f"\n\nExample: {kind.example}" if kind.example else ""


_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Write the table of the answer, too: .csv, .arrow, .parquet or .html.",
)


def _write(question: Question[Any], answer: Any, path: Path) -> None:
    from divergraph.api.answer_table import write_table

    write_table(type(question), answer, path)
    say_beside(f"written to {path}")


def _print(
    question: Question[Any], answer: Any, values: Mapping[str, Any], *, as_json: bool
) -> None:
    """The answer as JSON or text; ``--limit`` cuts the table of both where no layout takes it."""
    layout, table, more = LAYOUTS.get(question.name), table_of(type(question)), 0
    if table is not None and (layout is None or not layout.options):
        answer, more = first_rows(table.name, values["limit"])(answer)
    if as_json:
        say_json(json_text(json_of(question, answer)))
    elif layout is None:
        say_lines("\n".join(json_lines(json_of(question, answer))))
    else:
        show = getattr(import_module(f"divergraph.cli.{layout.module}"), layout.name)
        own = values.keys() - {field.name for field in fields_of(type(question))}
        show(answer, **{name: values[name] for name in own if layout.options})
    say_more(more)


@cache
def parameters_of(kind: type[Question[Any]]) -> Mapping[str, click.Parameter]:
    """The parameters of a question's command by field."""
    defaults = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    return {field.name: _parameter(field, defaults[field.name]) for field in fields_of(kind)}


def _parameter(field: Field, default: Any) -> click.Parameter:
    about, many = field.about, get_origin(field.kind) is tuple
    entry = get_args(field.kind)[0] if many else field.kind
    name = about.name or field.name.strip("_").replace("_", "-")
    required = default is MISSING
    is_argument = required if about.is_argument is None else about.is_argument
    if is_argument:
        nargs = -1 if many else 1
        return QuestionArgument(field.name, _type(entry, about), about, required, nargs)
    if isinstance(default, Enum):
        default = default.value
    return click.Option(
        [f"--{name}", field.name],
        type=None if entry is bool else _type(entry, about),
        is_flag=entry is bool,
        multiple=many,
        required=required,
        default=None if required else default,
        show_default=not many and default not in (MISSING, None, False, ""),
        metavar=about.metavar,
        help=about.help,
    )


def _type(kind: Any, about: Parameter) -> click.ParamType[Any]:
    """What a value of this type may be on a command line."""
    if about.is_run:
        return RUN
    if isinstance(kind, type) and issubclass(kind, Enum):
        return click.Choice([str(choice.value) for choice in kind])
    if about.choices:
        return click.Choice(about.choices)
    if kind is int:
        return click.IntRange(_integer(about.minimum), _integer(about.maximum))
    if kind is float:
        minimum = about.minimum if about.above is None else about.above
        return FiniteRange(minimum, about.maximum, min_open=about.above is not None)
    return click.STRING


def _integer(end: float | None) -> int | None:
    return None if end is None else int(end)
