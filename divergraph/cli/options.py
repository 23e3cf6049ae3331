"""Options and habits the commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from divergraph.json_shapes import Json
from graphstore.contract import GraphStore
from graphstore.model import Side

DEFAULT_STORE = ".divergraph"
STORE_VARIABLE = "DIVERGRAPH_STORE"

_Command = TypeVar("_Command", bound=Callable[..., Any])

_store = click.option(
    "--store",
    metavar="DIR|URL",
    help=f"Where runs are kept: a folder, or neo4j://host:7687[/database]. "
    f"Default: ${STORE_VARIABLE}, else ./{DEFAULT_STORE}.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")

side_option = click.option(
    "--side",
    type=click.Choice([side.value for side in Side]),
    default=Side.DEVICE.value,
    show_default=True,
    help="Which graph of a run.",
)


def common(command: _Command) -> _Command:
    """Give a command ``--store`` and ``--json`` (passed as ``store`` and ``as_json``)."""
    return _store(_json(command))


def store_url(given: str | None) -> str:
    """The store to use: the option, the environment, the default."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


@contextmanager
def opened(given: str | None) -> Iterator[GraphStore]:
    """The store, closed at the end."""
    from graphstore.open_store import open_store

    store = open_store(store_url(given))
    try:
        yield store
    finally:
        store.close()


def print_json(shape: Mapping[str, Json]) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(shape, indent=2, ensure_ascii=False, allow_nan=False))
