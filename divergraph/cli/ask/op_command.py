"""``divergraph op``."""

from __future__ import annotations

from functools import partial

import click

from divergraph.ask.questions.neighbourhood import NeighbourhoodQuestion
from divergraph.ask.questions.op import OpQuestion
from divergraph.cli.options import common, print_answer
from divergraph.cli.question_command import parameters_of
from graphstore.model import Side


@click.command("op", params=[*parameters_of(OpQuestion).values()])
@click.option("--all", "everything", is_flag=True, help="With all attributes of the graph.")
@click.option(
    "--depth",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Draw the ops around it, N steps each way; with --json print these instead.",
)
@common
def op_command(
    run: str,
    op: str,
    side: str,
    everything: bool,
    depth: int | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Show everything about one op of RUN, a run or imported graph.

    Its state and why, tensors with types, shapes and values, originals, fusion passes, kernel,
    and with --depth the ops it reads from and is read by.
    """
    from divergraph.cli.ask.op_text import show_neighbourhood, show_op

    if depth is None or not as_json:
        question = OpQuestion(run, op, Side(side))
        print_answer(question, store, partial(show_op, everything=everything), as_json=as_json)
    if depth is not None:
        around = NeighbourhoodQuestion(run, op, depth, Side(side))
        print_answer(around, store, show_neighbourhood, as_json=as_json)
