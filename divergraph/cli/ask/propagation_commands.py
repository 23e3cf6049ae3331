"""``divergraph origins`` and ``trace``: who makes an error, where it goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from divergraph.ask.questions.origins import OriginsQuestion
from divergraph.ask.questions.trace import TraceQuestion
from divergraph.cli.options import common, print_answer, shown_option
from divergraph.cli.question_command import parameters_of
from divergraph.cli.run_name import RUN

if TYPE_CHECKING:
    pass


@click.command("origins", params=[parameters_of(OriginsQuestion)["explain"]])
@click.argument("run", type=RUN, required=False)
@click.option("--all-runs", is_flag=True, help="What is guilty in several runs of the store.")
@common
def origins_command(
    run: str | None, all_runs: bool, explain: bool, store: str | None, as_json: bool
) -> None:
    """Say where the error of a run starts, and why.

    \b
    Marks:  # guilty    makes far more error than its precision explains
            ? suspect   makes more than that; may be chance

    With --all-runs instead of RUN: ops, op types and fusion patterns that are guilty in
    several runs.
    """
    if all_runs == (run is not None):
        raise click.UsageError("give either a run or --all-runs")
    if run is None and explain:
        raise click.UsageError("--explain is of one run")
    from divergraph.ask.questions.recurring import RecurringQuestion
    from divergraph.cli.ask.across_text import show_recurring
    from divergraph.cli.ask.propagation_text import show_origins_answer

    if run is None:
        print_answer(RecurringQuestion(), store, show_recurring, as_json=as_json)
        return
    show = partial(show_origins_answer, explain=explain)
    print_answer(OriginsQuestion(run, explain), store, show, as_json=as_json)


@click.command("trace", params=[*parameters_of(TraceQuestion).values()])
@click.option("--from", "start", metavar="OP", help="The same as OP; default: the first origin.")
@click.option("--all", "whole", is_flag=True, help="List every op downstream.")
@shown_option("ops downstream", None)
@common
def trace_command(
    run: str,
    op: str | None,
    start: str | None,
    to: str | None,
    whole: bool,
    limit: int | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Follow an error from an op down to the outputs.

    Shows the path on which most of the error is carried to the outputs that are worst off:
    a line is one op with its mark, relative error, gain (error out over the worst error in)
    and name. Runs of ops that only carry are folded. Then the ops that every path passes,
    and where the error is healed. `ops --help` explains the marks.
    """
    from divergraph.cli.ask.propagation_text import show_trace

    if op is not None and start is not None:
        raise click.UsageError("give the op once: as OP or with --from")
    if limit is not None and not whole:
        raise click.UsageError("--limit is for --all: the path is folded and shown whole")
    show = partial(show_trace, whole=whole, most=limit)
    print_answer(TraceQuestion(run, op or start, to), store, show, as_json=as_json)
