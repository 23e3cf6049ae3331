"""``divergraph lineage``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import (
    common,
    first_rows,
    limit_option,
    opened_to_read,
    print_answer,
    print_shown,
)
from divergraph.cli.run_name import RUN
from divergraph.cli.text import show_links, show_unmatched
from divergraph.jobs.stage_times import timed

if TYPE_CHECKING:
    from divergraph.ask.questions.unmatched import UnmatchedQuestion


@click.command("lineage")
@click.argument("run", type=RUN)
@click.argument("op", required=False)
@click.option("--unmatched", "is_unmatched", is_flag=True, help="List the ops without any.")
@limit_option
@common
def lineage_command(
    run: str,
    op: str | None,
    is_unmatched: bool,
    limit: int | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Show which originals a device op was made of, or where an original went.

    The word in brackets is the rule that found the link; a number after a name is the output
    that equals the one on the other side. With --unmatched instead of OP: all ops of both
    sides that have no counterpart, and why.
    """
    from divergraph.ask.questions.lineage import LineageQuestion
    from divergraph.ask.questions.unmatched import UnmatchedQuestion

    if is_unmatched == (op is not None):
        raise click.UsageError("give either an op or --unmatched")
    if op is None:
        _list_unmatched(UnmatchedQuestion(run), limit, store, as_json=as_json)
    else:
        question = LineageQuestion(run, op)
        print_answer(question, store, show_links, as_json=as_json, cut=first_rows("links", limit))


def _list_unmatched(
    question: UnmatchedQuestion, limit: int | None, store: str | None, *, as_json: bool
) -> None:
    with opened_to_read(store) as opened_store, timed("asking the store"):
        every = question.ask(opened_store)
    some = replace(every, device=every.device[:limit], golden=every.golden[:limit])
    # The text counts each side whole, so it is cut where it is written.
    answer = some if as_json else every
    more = sum(map(len, (every.device, every.golden))) - len(some.device) - len(some.golden)
    show = partial(show_unmatched, most=limit)
    print_shown(question, answer, show, as_json=as_json, more=more)
