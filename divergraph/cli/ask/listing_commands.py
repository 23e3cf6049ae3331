"""``divergraph runs``, ``ops`` and ``delete``."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from divergraph.ask.questions.ops import OpsQuestion
from divergraph.ask.questions.runs import EntriesQuestion, StoreEntries
from divergraph.cli.options import (
    common,
    limit_option,
    opened_to_read,
    print_answer,
    print_json,
    say_more,
)
from divergraph.cli.question_command import parameters_of
from divergraph.cli.say import say_beside, say_json_parts, say_note
from divergraph.cli.text import show_rows, show_runs
from divergraph.jobs.stage_times import timed
from divergraph.present.declared_answer import listed_op, ops_parts
from divergraph.text.printable import printable
from graphstore.model import Side


@click.command("runs")
@limit_option
@common
def runs_command(limit: int | None, store: str | None, as_json: bool) -> None:
    """List the runs and imported graphs of the store, oldest first; with --limit the newest."""

    def show(entries: StoreEntries) -> None:
        if not entries.runs and not entries.graphs:
            say_beside("the store is empty; `divergraph demo` makes a first run")
        show_runs(entries.runs, entries.graphs, entries.standings)

    def newest(entries: StoreEntries) -> tuple[StoreEntries, int]:
        if limit is None:
            return entries, 0
        runs, graphs = entries.runs[-limit:], entries.graphs[-limit:]
        more = len(entries.runs) + len(entries.graphs) - len(runs) - len(graphs)
        return replace(entries, runs=runs, graphs=graphs), more

    print_answer(EntriesQuestion(), store, show, as_json=as_json, cut=newest)


@click.command("ops", params=[*parameters_of(OpsQuestion).values()])
@common
def ops_command(
    run: str,
    where: str | None,
    side: str,
    order: str,
    limit: int | None,
    after: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List the ops of RUN, a run or imported graph.

    \b
    Marks:  # origin       over a limit, and nothing measured before it is
            v inherited    over a limit, after an op that is
            ^ drifting     past a warning level only
            = explained    past a limit, by no more than the precision of the ops explains
            . clean        within every limit
            ! broken       NaN or Inf the golden side does not have
            - not compared
            * an op the compiler added     +3 made of three originals
    """
    question = OpsQuestion(run, where, Side(side), order, after)
    with opened_to_read(store) as opened_store:
        with timed("asking the store"):
            _, numbers = question.numbers(opened_store)
            wanted = numbers[:limit]
            rows = None if as_json else question.listed(opened_store, wanted)
        with timed("writing the answer"):
            if rows is None:
                ops = question.streamed(opened_store, wanted)
                say_json_parts(ops_parts(run, map(listed_op, ops)))
            else:
                show_rows(rows, len(numbers))
    say_more(len(numbers) - len(wanted))


@click.command("delete")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first, as a terminal is asked.")
@common
def delete_command(name: str, yes: bool, store: str | None, as_json: bool) -> None:
    """Remove a run or imported graph from the store."""
    from divergraph.ask.facts import find_run
    from divergraph.ask.memory.baselines import delete_entry

    with opened_to_read(store) as opened_store:
        find_run(opened_store, name)  # what is not there is not asked about
        if not yes and sys.stdin.isatty():
            click.confirm(printable(f"delete {name} for good?"), abort=True, err=True)
        gone = delete_entry(opened_store, name)
    if as_json:
        print_json({"deleted": name, "baseline_of": None if gone is None else gone.model})
        return
    say_beside(f"deleted {name}")
    if gone is not None:
        say_note(f"it was the baseline of {gone.model}, which has none now")
