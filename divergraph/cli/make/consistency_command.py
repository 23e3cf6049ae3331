"""``divergraph consistency``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import common, opened, print_json
from divergraph.cli.say import say, say_beside
from divergraph.outcomes import DIVERGED, FINE
from divergraph.text.words import counted
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.api.answers import ConsistencyReport

_SURE = 0.5
_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_number = click.IntRange(min=0)


@click.command("consistency")
@click.argument("dump")
@click.option("--graph", type=_path, metavar="GRAPH|DIR", help="The graph DUMP was made of.")
@click.option("--against", type=_path, metavar="DIR", help="A second dump of the same graph.")
@click.option(
    "--step", type=_number, metavar="N", help="The step or iteration to take, of several."
)
@click.option("--rank", type=_number, metavar="N", help="The rank or device to take, of several.")
@click.option("--model-id", type=_number, metavar="N", help="The model id to take, of several.")
@click.option("--time", metavar="TIME", help="The dump time to take, of several (YYYYMMDDHHMMSS).")
@common
def consistency_command(
    dump: str,
    graph: Path | None,
    against: Path | None,
    step: int | None,
    rank: int | None,
    model_id: int | None,
    time: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Check a device's dump by itself, without a golden side.

    DUMP is a dump folder, with --graph, or the name of a run: then its device's dump and graph are
    taken. Found are ops where NaN, infinities or the end of float16 first appear, overflows the
    device recorded, inputs that are not what their producer put out, constant outputs, and with
    --against where two runs of the same model disagree.

    Exit code 0: nothing, or only what may be harmless, 1: something was found, 2: bad input.
    """
    choice = (step, rank, model_id, time)
    if graph is not None:
        from divergraph.api.consistency import consistency

        report = consistency(
            *(dump, graph),
            against=against,
            time=time,
            rank=rank,
            model_id=model_id,
            step=step,
            progress=True,
        )
    else:
        _check_run_name(dump, chosen=any(chosen is not None for chosen in choice))
        from divergraph.api.runs.compared_run import ComparedRun

        with opened(store) as opened_store:
            checked = ComparedRun(dump, store=opened_store)
            report = checked.consistency(against, progress=True)
    if as_json:
        from divergraph.present.declared_answer import answer_json

        print_json(answer_json(report))
    else:
        _show(report, twice=against is not None)
    has_sure = any(finding.confidence >= _SURE for finding in report.findings)
    return (DIVERGED if has_sure else FINE).exit_code


def _check_run_name(dump: str, *, chosen: bool) -> None:
    """Refuse a dump without its graph, and a choice among the dumps of a run."""
    if Path(dump).exists():
        raise InputError(
            "a dump alone does not say what feeds what", where=dump, hint="give its --graph"
        )
    if chosen:
        raise click.UsageError("a run has one dump: --step and the like go with --graph")


def _show(report: ConsistencyReport, *, twice: bool) -> None:
    for finding in report.findings:
        say(f"{'!' if finding.confidence >= _SURE else '?'} {finding.sentence}")
    if not report.findings:
        say("nothing found")
    summary = f"{counted(report.tensors, 'output')} checked, "
    summary += f"{counted(report.inputs, 'input')} compared with their producers"
    if report.inputs_skipped:
        summary += f" ({report.inputs_skipped} could not be)"
    if twice:
        summary += (
            f", {counted(report.repeated, 'output')} in both dumps, {report.differing} differ"
        )
    say_beside(summary)
