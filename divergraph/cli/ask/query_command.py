"""``divergraph query``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

import click

from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import common, opened, print_json
from divergraph.cli.say import say, say_cells, say_lines
from divergraph.jobs.waiting import wait_interruptible
from divergraph.outcomes import outcome_of_error
from divergraph.present.json.shapes import query_json
from divergraph.text.words import counted
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, QueryParameters, QueryResult
from graphstore.cypher.queries import Dialect, is_name, load
from graphstore.errors import InputError, QueryError


@click.command("query")
@click.argument("cypher", required=False)
@click.option("--run", "target", metavar="RUN", help="Ask this run or graph only.")
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="$NAME's value.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Rows at most.",
)
@click.option(
    "--timeout",
    type=FiniteRange(0, 1e9, min_open=True),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds at most.",
)
@click.option("--list", "show_list", is_flag=True, help="Show the named queries.")
@click.option("--explain", "show_plan", is_flag=True, help="Print the plan, ask nothing.")
@common
def query_command(
    cypher: str | None,
    target: str | None,
    params: tuple[str, ...],
    limit: int,
    timeout: float,
    show_list: bool,
    show_plan: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Ask the store in Cypher, read-only; docs/reference/cypher.md has the schema and examples.

    CYPHER may also be the name of a query that --list shows, with --run and its
    parameters, or - for a text on standard input:

    \b
    divergraph query worst_tensors --run NAME -p limit=5

    The VALUE of a parameter is JSON or, if it is none, a text; @FILE reads it from a file.
    Ctrl-C stops a query that takes too long.
    """
    if show_list:
        _show_queries(as_json=as_json)
        return
    if cypher == "-":
        cypher = sys.stdin.read()
    if not cypher or not cypher.strip():
        raise click.UsageError("give a Cypher text or a query's name, or --list")
    given = dict(_parameter(text) for text in params)
    with opened(store) as opened_store:
        asked = _Question(opened_store, cypher, target, given, limit, timeout)
        try:
            if show_plan:
                plan = stoppable(asked.plan)
            else:
                result = stoppable(asked.answer)
        except QueryError as error:
            _point_at(cypher, error.position)
            raise
    if show_plan:
        _print_plan(plan, as_json=as_json)
    else:
        _print_result(result, as_json=as_json)


class _Question:
    """What is asked of a store; the work of another thread."""

    def __init__(
        self,
        store: GraphStore,
        cypher: str,
        target: str | None,
        given: Mapping[str, str],
        limit: int,
        timeout: float,
    ) -> None:
        self._store, self._cypher, self._target = store, cypher, target
        self._limit, self._timeout = limit, timeout
        self._named = load(cypher, _dialect(store)) if is_name(cypher) else None
        kinds = {} if self._named is None else self._named.parameters
        self._values = {name: _value(text, kinds.get(name)) for name, text in given.items()}

    def answer(self, cancellation: Cancellation) -> QueryResult:
        """The rows."""
        if self._named is not None and self._target is not None:
            return self._store.named(
                self._cypher,
                self._target,
                self._values,
                limit=self._limit,
                timeout=self._timeout,
                cancellation=cancellation,
            )
        text = self._cypher
        if self._named is not None:
            text = self._named.text
            if _ABOUT_ONE.search(text):
                raise click.UsageError(
                    f"the query {self._cypher} is about one run or graph: give --run"
                )
        return self._store.query(text, self._parameters(cancellation), self._target)

    def plan(self, cancellation: Cancellation) -> str:
        """How the store would find them."""
        return self._store.explain(self._cypher, self._parameters(cancellation), self._target)

    def _parameters(self, cancellation: Cancellation) -> QueryParameters:
        return QueryParameters(self._values, self._limit, self._timeout, cancellation)


_ABOUT_ONE = re.compile(r"\$(?:run|graph|golden|device)\b")
"""Parameters that come from the run or graph that is asked about."""


def _dialect(store: GraphStore) -> Dialect:
    from graphstore.cypher.store import CypherStore

    return store.dialect if isinstance(store, CypherStore) else Dialect.EMBEDDED


def _print_result(result: QueryResult, *, as_json: bool) -> None:
    if as_json:
        print_json(query_json(result))
    else:
        say_cells(result.columns)
        for row in result.rows:
            say_cells(map(_cell, row))
        if result.truncated:
            say(f"the first {counted(len(result.rows), 'row')}; --limit gives more", err=True)
    for note in result.notes:
        say(f"note: {note}", err=True)


def _print_plan(plan: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"plan": plan})
    else:
        say_lines(plan)


def _point_at(cypher: str, position: int | None) -> None:
    """Show the line of a query an error is in and a caret under the place, to a person."""
    if position is None or not sys.stderr.isatty():
        return
    before = cypher[:position]
    start = before.rfind("\n") + 1
    end = cypher.find("\n", position)
    line = cypher[start : None if end < 0 else end].expandtabs(1)
    say(line, err=True)
    say(f"{' ' * (position - start)}^", err=True)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple | dict | bool):
        return json.dumps(value, default=str, ensure_ascii=False)
    return "" if value is None else str(value)


def _parameter(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InputError(
            f"{text!r} is not a parameter", hint="-p name=value; value may be JSON, or @FILE"
        )
    if value.startswith("@"):
        value = _file_text(Path(value[1:]))
    return name.lstrip("$"), value


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(
            f"cannot read the parameter: {said}",
            where=str(path),
            hint="a text that starts with @ is written as JSON: '\"@...\"'",
        ) from error


def _value(text: str, kind: str | None) -> object:
    """JSON if it is any; what a named query takes as text or op is a text, come what may."""
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    is_text = kind is not None and (kind == "text" or kind.endswith("op"))
    return text if is_text and not isinstance(value, str) else value


def _show_queries(*, as_json: bool) -> None:
    from graphstore.cypher.queries import list_queries

    queries = list_queries()
    if as_json:
        print_json(
            {
                "queries": [
                    {
                        "name": query.name,
                        "answers": query.answers,
                        "parameters": list(query.parameters),
                    }
                    for query in queries
                ]
            }
        )
        return
    for query in queries:
        names = " ".join(f"${name}" for name in query.parameters)
        say(f"{query.name:26} {query.answers}  {names}".rstrip())


_PATIENCE_SECONDS = 3.0
_STOPPED = 130

_T = TypeVar("_T")


def stoppable(work: Callable[[Cancellation], _T]) -> _T:
    """The value of *work*, done in a thread; Ctrl-C cancels it and raises KeyboardInterrupt.

    An engine keeps the thread it runs in from hearing signals, so it must be another one.
    What does not stop within a few seconds is left behind: the process ends with 130, or
    as of a bad query if it is the engine that lets its time pass.
    """
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as thread:
        done: Future[_T] = thread.submit(work, cancellation)
        try:
            wait_interruptible([done], lambda: _give_up(cancellation))
        except KeyboardInterrupt:
            cancellation.cancel()
            if wait([done], _PATIENCE_SECONDS).not_done:
                say("stopped", err=True)
                os._exit(_STOPPED)
            raise
        return done.result()


def _give_up(cancellation: Cancellation) -> None:
    """End the process if the engine does not end a query whose time is over."""
    if cancellation.stuck is not None:
        say(f"divergraph: {cancellation.stuck}", err=True)
        os._exit(outcome_of_error(cancellation.stuck).exit_code)
