"""Options and habits the commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from divergraph.api.arguments import precision_names
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.say import say_json
from divergraph.present.json.shapes import Json, json_text
from graphstore.contract import GraphStore
from graphstore.model import GUILTY, SUSPECT, Side

if TYPE_CHECKING:
    from divergraph.questions.question import Question

Answer = TypeVar("Answer")
DEFAULT_STORE = ".divergraph"
STORE_VARIABLE = "DIVERGRAPH_STORE"

_Command = TypeVar("_Command", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    metavar="DIR|URL",
    help="Where runs are kept: a folder, neo4j://host:7687[/database] or a server, "
    f"https://host:8321. Default: ${STORE_VARIABLE}, else ./{DEFAULT_STORE}.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")

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
    return [each for each in _PRECISIONS if each.startswith(incomplete)]


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


method_option = click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="auto",
    show_default=True,
    help="How origins are found: root-cause runs every original op on the device's own inputs.",
)


def _with_packs(ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> None:
    if given:
        from graphstore.cypher.query_packs import known_packs

        ctx.with_resource(known_packs(map(Path, given)))


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


def store_url(given: str | None) -> str:
    """The store to use: the option, the environment, the default."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


@contextmanager
def opened(given: str | None) -> Iterator[GraphStore]:
    """The store, closed at the end."""
    from graphstore.open_store import open_store

    with open_store(store_url(given)) as store:
        yield store


@contextmanager
def opened_to_read(given: str | None) -> Iterator[GraphStore]:
    """The store, closed at the end; a folder that somebody names must be there.

    Raises:
        InputError: it is not.
    """
    from graphstore.open_store import open_existing, open_store

    named = store_url(given)
    hint = f"named by --store or {STORE_VARIABLE}; compare and import make one"
    with open_store(named) if named == DEFAULT_STORE else open_existing(named, hint) as store:
        yield store


def print_json(shape: Mapping[str, Json]) -> None:
    """One JSON document on standard output."""
    say_json(json_text(shape))


def print_answer(
    question: Question[Answer],
    store: str | None,
    show: Callable[[Answer], object],
    *,
    as_json: bool,
) -> Answer:
    """Ask *question*, print what was answered, as JSON or by *show*, and return it."""
    with opened_to_read(store) as opened_store:
        answer = question.ask(opened_store)
    if as_json:
        print_json(question.json(answer))
    else:
        show(answer)
    return answer
