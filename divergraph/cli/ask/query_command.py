"""``divergraph query``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from divergraph.ask.cypher_questions import PlanQuestion, QueryPlan, RowsQuestion
from divergraph.ask.question import Question
from divergraph.ask.questions.queries import NamedQueriesQuestion
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import (
    common,
    opened_to_read,
    packs_option,
    print_json,
    print_or_show,
    print_record,
    store_url,
)
from divergraph.cli.say import say, say_beside, say_cells, say_error, say_lines, say_note
from divergraph.jobs.waiting import wait_interruptible
from divergraph.outcomes import outcome_of_error
from divergraph.text.words import counted
from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher.user_question import CypherQuestion, cell_text
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
@click.option(
    "--check",
    "checked",
    metavar="PACK",
    help="Ask the queries of a folder, file or installed pack about the small graphs they name.",
)
@packs_option
@click.option("--explain", "show_plan", is_flag=True, help="Print the plan, ask nothing.")
@common
def query_command(
    cypher: str | None,
    target: str | None,
    params: tuple[str, ...],
    limit: int,
    timeout: float,
    show_list: bool,
    checked: str | None,
    show_plan: bool,
    store: str | None,
    as_json: bool,
) -> int:
    """Ask the store in Cypher, read-only; docs/reference/cypher.md has the schema and examples.

    CYPHER may also be the name of a query that --list shows, with --run and its
    parameters, or - for a text on standard input:

    \b
    divergraph query worst_tensors --run NAME -p limit=5

    The VALUE of a parameter is JSON or, if it is none, a text; @FILE reads it from a file.
    Ctrl-C stops a query that takes too long. With --check the exit code is 1 if a query does not
    what its file says; a Neo4j --store is asked, too.
    """
    if show_list:
        _show_queries(as_json=as_json)
        return 0
    if checked is not None:
        return _check_pack(checked, store_url(store), as_json=as_json)
    if cypher == "-":
        cypher = sys.stdin.read()
    if not cypher or not cypher.strip():
        raise click.UsageError("give a Cypher text or a query's name, or --list")
    parameters = dict(_parameter(text) for text in params)
    question = CypherQuestion(cypher, target, parameters, limit, timeout)
    try:
        if show_plan:
            _print_asked(PlanQuestion(question), store, _show_plan, as_json=as_json)
            return 0
        result = _print_asked(RowsQuestion(question), store, _show_rows, as_json=as_json)
    except QueryError as error:
        _point_at(cypher, error.position)
        raise
    for note in result.notes:
        say_note(note)
    return 0


def _print_asked(
    question: Question[_T],
    store: str | None,
    show: Callable[[_T], object],
    *,
    as_json: bool,
) -> _T:
    """As :func:`print_answer`, and Ctrl-C stops the engine."""
    with opened_to_read(store) as opened_store:
        answer = stoppable(partial(question.ask, opened_store))
    print_or_show(answer, show, as_json=as_json)
    return answer


def _show_plan(answer: QueryPlan) -> None:
    say_lines(answer.plan)


def _show_rows(result: QueryResult) -> None:
    say_cells(result.columns)
    for row in result.rows:
        say_cells(map(cell_text, row))
    if result.truncated:
        say_beside(f"the first {counted(len(result.rows), 'row')}; --limit gives more")


def _point_at(cypher: str, position: int | None) -> None:
    """Show the line of a query an error is in and a caret under the place, to a person."""
    if position is None or not sys.stderr.isatty():
        return
    before = cypher[:position]
    start = before.rfind("\n") + 1
    end = cypher.find("\n", position)
    line = cypher[start : None if end < 0 else end].expandtabs(1)
    say_error(line)
    say_error(f"{' ' * (position - start)}^")


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
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(
            f"cannot read the parameter: {reason}",
            where=str(path),
            hint="a text that starts with @ is written as JSON: '\"@...\"'",
        ) from error


def _show_queries(*, as_json: bool) -> None:
    question = NamedQueriesQuestion()
    answer = question.ask()
    if as_json:
        print_record(answer)
        return
    for query in answer.queries:
        names = " ".join(f"${name}" for name in query.parameters)
        say(f"{query.name:26} {query.answers}  {names}".rstrip())


def _check_pack(pack: str, store: str, *, as_json: bool) -> int:
    """Say what is wrong with the queries of *pack*; 1 if anything is."""
    from divergraph.api.query_packs import check_queries

    faults = check_queries(pack, store if "://" in store else None)
    if as_json:
        print_json({"pack": pack, "faults": [asdict(fault) for fault in faults]})
        return 1 if faults else 0
    for fault in faults:
        say(f"{fault.place}: {fault.query} {fault.said} ({fault.store})")
    if not faults:
        say_beside("every query does what its file says")
    return 1 if faults else 0


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
                say_error("stopped")
                os._exit(_STOPPED)
            raise
        return done.result()


def _give_up(cancellation: Cancellation) -> None:
    """End the process if the engine does not end a query whose time is over."""
    if cancellation.stuck is not None:
        say_error(f"divergraph: {cancellation.stuck}")
        os._exit(outcome_of_error(cancellation.stuck).exit_code)
