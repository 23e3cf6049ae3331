"""``divergraph compare-runs``: what changed from one run to another."""

from __future__ import annotations

from functools import partial

import click

from divergraph.cli.across.times_option import times_option
from divergraph.cli.options import common, print_answer, shown_option
from divergraph.cli.run_name import RUN
from divergraph.outcomes import DIVERGED, FINE


@click.command("compare-runs")
@click.argument("old", type=RUN)
@click.argument("new", type=RUN)
@times_option
@shown_option("ops of each kind", 10)
@common
def compare_runs_command(
    old: str, new: str, times: float, limit: int, store: str | None, as_json: bool
) -> int:
    """Say which ops make more error of their own in run NEW than in run OLD, and which less.

    Ops are matched by the originals they stand for, so names and fusion may differ: runs of
    an old and a new compiler, driver or precision setting. What an op makes itself does not
    depend on what happens upstream.

    Exit code 0: no op is newly guilty, 1: some op is.
    """
    from divergraph.cli.across.across_text import show_changes
    from divergraph.questions.propagation import ChangesQuestion

    question = ChangesQuestion(old, new, times)
    show = partial(show_changes, most=limit)
    changes = print_answer(question, store, show, as_json=as_json)
    worse = any(change.newly_guilty for change in changes.changes)
    return (DIVERGED if worse else FINE).exit_code
