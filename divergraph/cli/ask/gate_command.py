"""``divergraph gate``: may this run pass?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.ask.report_options import report_options
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import (
    common,
    opened,
    opened_to_read,
    print_record,
    say_rest,
    shown_option,
)
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED
from divergraph.text.words import counted
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.ask.gate.passing import GateAnswer
    from divergraph.present.destination import ReportPlaces
    from graphstore.contract import GraphStore

_path = click.Path(path_type=Path, readable=False)


@click.command("gate")
@click.argument("run", type=RUN, required=False)
@click.option(
    "--baseline",
    default="",
    metavar="FILE|RUN",
    help="What it is held against; default: the baseline of its model.",
)
@click.option("--update", is_flag=True, help="Write FILE: this run is the baseline now.")
@click.option("--accept", multiple=True, metavar="OP", help="Take what OP does now for right.")
@click.option("--reason", default="", metavar="TEXT", help="Why it is accepted.")
@click.option("--golden", type=_path, metavar="GRAPH", help="Compare first: the original model.")
@click.option("--golden-dump", type=_path, metavar="DIR", help="Its dump.")
@click.option("--device", type=_path, metavar="GRAPH|DIR", help="The device's graph.")
@click.option("--device-dump", type=_path, metavar="DIR", help="The device's dump.")
@click.option(
    "--times",
    type=FiniteRange(min=1, min_open=True),
    default=2.0,
    show_default=True,
    help="Errors that changed by less than this factor are the same.",
)
@shown_option("ops of each kind", 20)
@report_options
@common
def gate_command(
    run: str | None,
    baseline: str,
    update: bool,
    accept: tuple[str, ...],
    reason: str,
    golden: Path | None,
    golden_dump: Path | None,
    device: Path | None,
    device_dump: Path | None,
    times: float,
    limit: int,
    places: ReportPlaces,
    store: str | None,
    as_json: bool,
) -> int:
    """Say whether RUN may pass: no op is worse than in the baseline.

    The baseline is another run (`baseline set`), or a FILE to keep beside the model, which
    --update writes.
    An op that is newly guilty, or makes --times its former error, does not pass; --accept
    writes it into FILE as right, with your name and the reason. With the paths of `compare`
    both sides are compared first, and kept as RUN. Of an undecided run nothing is written.

    Exit code 0: it may pass, 1: it may not, 2: bad input, or nothing could be decided.
    """
    from divergraph.ask.gate import passing

    if update and accept:
        raise InputError("--update takes everything, --accept one op: give one of them")
    if reason and not accept:
        raise InputError("--reason says why an op is accepted: give --accept OP too")
    if (update or accept) and not baseline:
        raise InputError("there is no file to write", hint="name it: --baseline FILE")

    if as_json and places.to_standard_output:
        raise InputError("--json and a report cannot both go to standard output")
    is_new = golden is not None  # whoever compares may begin a store
    with (opened if is_new else opened_to_read)(store) as opened_store:
        if baseline and not update:  # before the work of comparing
            passing.find_baseline(opened_store, baseline)
        name = _compared(opened_store, run, (golden, golden_dump, device, device_dump))
        if update:
            answer = passing.update(opened_store, name, Path(baseline))
        elif accept:
            answer = passing.accept(opened_store, name, Path(baseline), accept, reason, times=times)
        else:
            answer = passing.gate(opened_store, name, baseline, times=times)
        if places.paths:
            from divergraph.present.run_report import stored_report

            places.write(stored_report(opened_store, name), lambda: opened_store.run_data(name))
    if as_json:
        print_record(answer)
    elif not places.to_standard_output:
        show_gate(answer, limit)
    if answer.passed:
        return FINE.exit_code
    return (DIVERGED if answer.worse else NOTHING_COMPARED).exit_code


def _compared(store: GraphStore, run: str | None, paths: tuple[Path | None, ...]) -> str:
    """The name of the run, which is made of *paths* if these are given."""
    paths_present = [path for path in paths if path is not None]
    if not paths_present:
        if run is None:
            raise InputError("which run?", hint="divergraph gate RUN, or the paths to compare")
        return run
    if len(paths_present) < len(paths):
        raise InputError("--golden, --golden-dump, --device and --device-dump belong together")
    from divergraph.api.compare import compare

    golden, golden_dump, device, device_dump = paths_present
    compared = compare(
        golden, golden_dump, device, device_dump, name=run, store=store, replace=True, progress=True
    )
    if not compared.kept:
        raise InputError("nothing could be compared", hint="divergraph compare says why not")
    return compared.data.run.name


def show_gate(answer: GateAnswer, limit: int) -> None:
    """The answer first, then what got worse, then the rest; *limit* of each."""
    name = answer.run.name
    if answer.wrote:
        say(f"{answer.wrote}: written; {counted(answer.matched, 'output')} of {name}")
    if not answer.passed and not answer.worse:
        why = f": {doubt}" if (doubt := answer.run.analysis.doubt) else ""
        advice = f"(divergraph advise {name})"
        say(f"{name} may not pass: nothing can be said of it{why} {advice}", bold=True)
    elif answer.worse:
        ops = counted(len(answer.worse), "op")
        say(f"{name} may not pass: {ops} worse than in {answer.baseline}", bold=True)
    else:
        sentence = f"{name} may pass: of {counted(answer.matched, 'output')} none is worse"
        say(f"{sentence} than in {answer.baseline}", bold=True)
    for change in answer.worse[:limit]:
        say(f"  {change.sentence}")
    say_rest(len(answer.worse), limit)
    if answer.missing:
        say(f"  not compared any more: {counted(answer.missing, 'output')} of the baseline")
    for change in answer.others[:limit]:
        say(f"  passes: {change.sentence}")
    say_rest(len(answer.others), limit)
    for one in answer.accepted[:limit]:
        why = f": {one.reason}" if one.reason else ""
        say(f"  accepted: {one.golden} by {one.by} on {one.at[:10]}{why}")
    say_rest(len(answer.accepted), limit)
