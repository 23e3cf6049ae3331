"""``divergraph lineage`` and ``between``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from divergraph.cli.options import common, print_answer
from divergraph.cli.say import say
from divergraph.cli.text import show_links, show_rows, show_unmatched
from graphstore.op_row import OpRow


@click.command("lineage")
@click.argument("run")
@click.argument("op", required=False)
@click.option("--unmatched", "is_unmatched", is_flag=True, help="List the ops without any.")
@common
def lineage_command(
    run: str, op: str | None, is_unmatched: bool, store: str | None, as_json: bool
) -> None:
    """Show which originals a device op was made of, or where an original went.

    The word in brackets is the rule that found the link; a number after a name is the output
    that equals the one on the other side. With --unmatched instead of OP: all ops of both
    sides that have no counterpart, and why.
    """
    from divergraph.questions.lineages import LineageQuestion, UnmatchedQuestion

    if is_unmatched == (op is not None):
        raise click.UsageError("give either an op or --unmatched")
    if op is None:
        print_answer(UnmatchedQuestion(run), store, show_unmatched, as_json=as_json)
    else:
        print_answer(LineageQuestion(run, op), store, partial(show_links, op), as_json=as_json)


@click.command("between")
@click.argument("run")
@click.argument("start")
@click.argument("end")
@common
def between_command(run: str, start: str, end: str, store: str | None, as_json: bool) -> None:
    """List the ops on any path from START to END, both included, as `ops` does."""
    from divergraph.questions.listings import BetweenQuestion

    def show(rows: Sequence[OpRow]) -> None:
        if not rows:
            say(f"no path leads from {start} to {end}", err=True)
        show_rows(rows)

    print_answer(BetweenQuestion(run, start, end), store, show, as_json=as_json)
