"""Options and habits the commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from divergraph.api.arguments import precision_names
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.say import say, say_beside, say_json, say_note
from divergraph.files.config_file import read_config
from divergraph.jobs.stage_times import timed
from divergraph.present.json_text import Json, json_text
from graphstore.contract import GraphStore
from graphstore.model import GUILTY, SUSPECT, Side
from graphstore.open_store import DEFAULT_STORE

if TYPE_CHECKING:
    from divergraph.ask.question import Question

Answer = TypeVar("Answer")
Cut: TypeAlias = Callable[[Answer], tuple[Answer, int]]
"""Shortens an answer, and says how much of it is left out."""
STORE_VARIABLE = "DIVERGRAPH_STORE"

_Command = TypeVar("_Command", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    metavar="DIR|URL",
    help="Where runs are kept: a folder, neo4j://host:7687[/database] or a server, "
    f"https://host:8321. Default: ${STORE_VARIABLE}, else `store` of config.toml, "
    f"else ./{DEFAULT_STORE}.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")

limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="List N at most, and say how many more there are.",
)


def shown_option(what: str, default: int | None) -> Callable[[_Command], _Command]:
    """``--limit`` of a command whose text shows some of *what*, and whose JSON all."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=f"Show N {what} at most; --json lists all.",
    )


def output_option(help_text: str) -> Callable[[_Command], _Command]:
    """``--output-number``: one of an op's outputs."""
    return click.option(
        "--output-number",
        "--output",
        "output",
        type=click.IntRange(min=0),
        metavar="N",
        help=help_text,
    )


side_option = click.option(
    "--side",
    type=click.Choice([side.value for side in Side]),
    default=Side.DEVICE.value,
    show_default=True,
    help="Which graph of a run.",
)


_number = FiniteRange(min=0, min_open=True)
_METHODS = ("auto", "root-cause", "thresholds")


_PRECISIONS = precision_names(installed=False)
"""As help lists them; plug-ins are only looked for when a name is none of these."""


def _precision(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in _PRECISIONS:
        return value
    return str(click.Choice(precision_names(installed=True)).convert(value, param, ctx))


def _precisions_starting(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    return [precision for precision in _PRECISIONS if precision.startswith(incomplete)]


def root_cause_options(command: _Command) -> _Command:
    """Give a command the options of the root-cause analysis, as of ``divergraph.compare``."""
    options = (
        click.option(
            "--suspect",
            type=_number,
            default=SUSPECT,
            show_default=True,
            metavar="N",
            help="Introduced error over noise floor from which an op is suspect.",
        ),
        click.option(
            "--guilty",
            type=_number,
            default=GUILTY,
            show_default=True,
            metavar="N",
            help="Introduced error over noise floor from which an op is guilty: an origin.",
        ),
        click.option(
            "--precision",
            callback=_precision,
            shell_complete=_precisions_starting,
            metavar=f"[{'|'.join(_PRECISIONS)}]",
            default="auto",
            show_default=True,
            help="The device's arithmetic; auto: found from its dump. hf32, tf32: fp32, but "
            "matrix ops take operands with 11 or 10 bits of mantissa.",
        ),
        click.option(
            "--memory",
            type=click.IntRange(min=1),
            default=1024,
            show_default=True,
            metavar="MIB",
            help="Tensors and weights held at once when ops are run again; more only where one op "
            "alone needs it, with a warning.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_natural = click.IntRange(min=0)
_PLACES = (
    click.option(
        "--step", type=_natural, metavar="N", help="The step or iteration to take, of several."
    ),
    click.option(
        "--rank", type=_natural, metavar="N", help="The rank or device to take, of several."
    ),
    click.option(
        "--model-id", type=_natural, metavar="N", help="The model id to take, of several."
    ),
    click.option(
        "--time", metavar="TIME", help="The dump time to take, of several (YYYYMMDDHHMMSS)."
    ),
)


def place_options(command: _Command) -> _Command:
    """Give a command the options that choose among several dumps of a folder."""
    for option in reversed(_PLACES):
        command = option(command)
    return command


method_option = click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="auto",
    show_default=True,
    help="How origins are found: root-cause runs every original op on the device's own inputs.",
)


def _with_packs(ctx: click.Context, _param: click.Parameter, packs: tuple[str, ...]) -> None:
    if packs:
        from graphstore.cypher.query_packs import known_packs

        ctx.with_resource(known_packs(map(Path, packs)))


packs_option = click.option(
    "--packs",
    multiple=True,
    callback=_with_packs,
    expose_value=False,
    metavar="DIR",
    help="A folder of named queries; repeat for more. $DIVERGRAPH_PACKS names them for always.",
)


def common(command: _Command) -> _Command:
    """Give a command ``--store`` and ``--json`` (passed as ``store`` and ``as_json``)."""
    return store_option(_json(command))


def store_url(url: str | None) -> str:
    """The store to use: the option, the environment, the user's configuration, the default."""
    return url or os.environ.get(STORE_VARIABLE) or read_config().store or DEFAULT_STORE


@contextmanager
def opened(url: str | None) -> Iterator[GraphStore]:
    """The store, closed at the end."""
    from graphstore.open_store import open_store

    with timed("opening the store"):
        store = open_store(store_url(url))
    with store:
        yield store


@contextmanager
def opened_to_read(url: str | None) -> Iterator[GraphStore]:
    """The store, closed at the end; a folder that somebody names must be there.

    Raises:
        InputError: it is not.
    """
    from graphstore.open_store import open_existing, open_store

    named = store_url(url)
    hint = f"named by --store, {STORE_VARIABLE} or config.toml; compare and import make one"
    with timed("opening the store"):
        store = open_store(named) if named == DEFAULT_STORE else open_existing(named, hint)
    with store:
        yield store


def print_json(shape: Mapping[str, Json]) -> None:
    """One JSON document on standard output."""
    say_json(json_text(shape))


def print_record(record: object, name: str = "", **parameters: Any) -> None:
    """A record as one JSON document: the object *name*, by default the first declared of it."""
    from divergraph.present.declared_answer import answer_json

    print_json(answer_json(record, name, **parameters))


def print_or_show(
    record: Answer, show: Callable[[Answer], object], *, as_json: bool, **parameters: Any
) -> None:
    """A record as JSON, which may need *parameters*, or by *show*."""
    if as_json:
        print_record(record, **parameters)
    else:
        show(record)


def print_done(shape: Mapping[str, Json], message: str, *, as_json: bool) -> None:
    """What was done: as JSON on standard output, or a *message* on standard error."""
    if as_json:
        print_json(shape)
    else:
        say_beside(message)


def print_answer(
    question: Question[Answer],
    store: str | None,
    show: Callable[[Answer], object],
    *,
    as_json: bool,
    cut: Cut[Answer] | None = None,
) -> Answer:
    """Ask *question*, print what was answered, as JSON or by *show*, and return it.

    *cut* leaves of a long answer what ``--limit`` lets through.
    """
    with opened_to_read(store) as opened_store, timed("asking the store"):
        answer = question.ask(opened_store)
    cut_answer, more = (answer, 0) if cut is None else cut(answer)
    print_shown(question, cut_answer, show, as_json=as_json, more=more)
    return answer


def print_shown(
    question: Question[Answer],
    answer: Answer,
    show: Callable[[Answer], object],
    *,
    as_json: bool,
    more: int,
) -> None:
    """Print *answer*, as JSON or by *show*, and that there is *more* of it than is shown."""
    with timed("writing the answer"):
        if as_json:
            from divergraph.present.declared_answer import json_of

            print_json(json_of(question, answer))
        else:
            show(answer)
    say_more(more)


def first_rows(table: str, limit: int | None) -> Cut[Any]:
    """Lets through the first *limit* rows of the field *table* of an answer."""

    def cut(answer: Any) -> tuple[Any, int]:
        rows = getattr(answer, table)
        more = 0 if limit is None else len(rows[limit:])
        return replace(answer, **{table: rows[:limit]}), more

    return cut


def say_more(more: int) -> None:
    """Say, if it is so, that there is more than --limit let through."""
    if more:
        say_note(f"{more} more: not listed because of --limit")


def say_rest(count: int, limit: int) -> None:
    """Say at the end of a list of *count*, if it is so, that no more than *limit* are shown."""
    if count > limit:
        say(f"  and {count - limit} more; --limit shows them")
