"""``divergraph consistency``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened, print_json
from divergraph.cli.progress_bar import progress_bar
from divergraph.cli.say import say
from divergraph.consistency.checks import ConsistencyReport
from divergraph.outcomes import DIVERGED, FINE
from divergraph.text.words import counted
from graphstore.errors import InputError
from graphstore.model import ModelGraph
from importers.dumps import ANY_DUMP, DumpChoice

_SURE = 0.5
_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_number = click.IntRange(min=0)


@click.command("consistency")
@click.argument("dump")
@click.option("--graph", type=_path, metavar="GRAPH|DIR", help="The graph DUMP was made of.")
@click.option("--against", type=_path, metavar="DIR", help="A second dump of the same graph.")
@click.option("--step", type=_number, metavar="N", help="Of several steps or iterations, this one.")
@click.option("--rank", type=_number, metavar="N", help="Of several ranks or devices, this one.")
@click.option("--model-id", type=_number, metavar="N", help="Of several model ids, this one.")
@click.option("--time", metavar="TIME", help="Of several dump times (YYYYMMDDHHMMSS), this one.")
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

    DUMP is a dump folder, with --graph, or the name of a run: then its device's dump and
    graph are taken. Found are ops where NaN, infinities or the end of float16 first
    appear, overflows the device recorded, inputs that are not what their producer put out,
    outputs of one value throughout, and with --against what two runs of the same model
    do not agree on.

    Exit code 0: nothing, or only what may be harmless, 1: something was found, 2: bad input.
    """
    from divergraph.consistency.checks import check_consistency
    from divergraph.inputs.sources import load_dumps, load_graph

    choice = DumpChoice(time, rank, model_id, step)
    device, folder = _subject(dump, graph, store, choice)
    if device is None:
        assert graph is not None
        device = load_graph(graph, folder, choice=choice).graph
    if against is not None and not against.exists():
        raise InputError("no such dump", where=str(against), hint="check --against")
    one = load_dumps(folder, device, "device", choice).index
    other = None if against is None else load_dumps(against, device, "second", ANY_DUMP).index
    with progress_bar() as progress:
        report = check_consistency(device, one, other, progress)
    if as_json:
        from divergraph.present.json.propagation import finding_json

        print_json(
            {
                "tensors": report.tensors,
                "inputs": report.inputs,
                "inputs_skipped": report.inputs_skipped,
                "repeated": report.repeated,
                "differing": report.differing,
                "findings": [finding_json(finding) for finding in report.findings],
            }
        )
    else:
        _show(report, twice=against is not None)
    found = any(finding.confidence >= _SURE for finding in report.findings)
    return (DIVERGED if found else FINE).exit_code


def _subject(
    dump: str, graph: Path | None, store: str | None, choice: DumpChoice
) -> tuple[ModelGraph | None, Path]:
    """The graph, if it is a run's, and where its dump is."""
    if graph is not None:
        if not Path(dump).exists():
            raise InputError("no such dump", where=dump)
        return None, Path(dump)
    if Path(dump).exists():
        raise InputError(
            "a dump alone does not say what feeds what", where=dump, hint="give its --graph"
        )
    if choice != ANY_DUMP:
        raise click.UsageError("a run has one dump: --step and the like go with --graph")
    from divergraph.inputs.kept_paths import kept_path

    with opened(store) as opened_store:
        run = opened_store.run(dump)
        return opened_store.graph(dump), kept_path(run, "device_dump")


def _show(report: ConsistencyReport, *, twice: bool) -> None:
    for finding in report.findings:
        say(f"{'!' if finding.confidence >= _SURE else '?'} {finding.sentence}")
    if not report.findings:
        say("nothing found")
    said = f"{counted(report.tensors, 'output')} looked at, "
    said += f"{counted(report.inputs, 'input')} held against their producers"
    if report.inputs_skipped:
        said += f" ({report.inputs_skipped} could not be)"
    if twice:
        said += f", {counted(report.repeated, 'output')} in both dumps, {report.differing} differ"
    say(said, err=True)
