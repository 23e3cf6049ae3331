"""``divergraph consistency``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.cli.options import common, opened, place_options, print_or_show
from divergraph.cli.say import say, say_beside
from divergraph.outcomes import DIVERGED, FINE
from divergraph.text.words import counted
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.api.answers import ConsistencyReport
    from divergraph.api.arguments import PlaceOptions

_SURE = 0.5
_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line


@click.command("consistency")
@click.argument("dump")
@click.option("--graph", type=_path, metavar="GRAPH|DIR", help="The graph DUMP was made of.")
@click.option("--against", type=_path, metavar="DIR", help="A second dump of the same graph.")
@place_options
@common
def consistency_command(
    dump: str,
    graph: Path | None,
    against: Path | None,
    store: str | None,
    as_json: bool,
    **choice: Unpack[PlaceOptions],
) -> int:
    """Check a device's dump by itself, without a golden side.

    DUMP is a dump folder, with --graph, or the name of a run: then its device's dump and graph are
    taken. Found are ops where NaN, infinities or the end of float16 first appear, overflows the
    device recorded, inputs that are not what their producer put out, constant outputs, and with
    --against where two runs of the same model disagree.

    Exit code 0: nothing, or only what may be harmless, 1: something was found, 2: bad input.
    """

    if graph is not None:
        from divergraph.api.consistency import consistency

        report = consistency(dump, graph, against=against, progress=True, **choice)
    else:
        _check_run_name(dump, chosen=any(chosen is not None for chosen in choice.values()))
        from divergraph.api.runs.compared_run import ComparedRun

        with opened(store) as opened_store:
            checked = ComparedRun(dump, store=opened_store)
            report = checked.consistency(against, progress=True)
    print_or_show(report, partial(_show, twice=against is not None), as_json=as_json)
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
