"""``divergraph compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.ask.questions.verdict import RunVerdict
from divergraph.cli.ask.report_options import report_options
from divergraph.cli.make.worker_options import worker_options
from divergraph.cli.options import (
    common,
    method_option,
    opened,
    place_options,
    print_record,
    root_cause_options,
    store_url,
)
from divergraph.cli.run_name import NAME_IS_RUN
from divergraph.cli.say import say_beside, say_doubt, say_error, say_note, tell_kept
from divergraph.cli.text import show_run
from divergraph.outcomes import outcome_of_verdict
from graphstore.contract import RunData
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.api.compare import CompareOptions
    from divergraph.present.destination import ReportPlaces

_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line


@click.command("compare", context_settings=NAME_IS_RUN)
@click.option("--golden", required=True, type=_path, metavar="GRAPH", help="The original model.")
@click.option(
    "--golden-dump",
    type=_path,
    metavar="DIR",
    help="Its dump: .npy files, a debugger's folder, or as --device-dump. Required unless --golden "
    "is msprobe's folder: that is graph and dump.",
)
@click.option(
    "--device",
    required=True,
    type=_path,
    metavar="GRAPH|DIR",
    help="The device's graph, or a folder of ge_proto_* files to choose from.",
)
@click.option(
    "--device-dump",
    type=_path,
    metavar="DIR",
    help="The device's dump, at any level of {time}/{device}/{model}/{id}/{step}. Required unless "
    "--device is msprobe's folder.",
)
@click.option("--device-graph", type=_path, metavar="FILE", help="Use this file of the folder.")
@place_options
@click.option("--ranks", metavar="all|0,1,4-7", help="A run for each of these ranks.")
@click.option("--steps", metavar="all|0,1,4-7", help="A run for each of these steps.")
@click.option("--run", "name", metavar="NAME", help="Name of the run; default: a fresh one.")
@click.option("--replace", "replace_it", is_flag=True, help="Overwrite a run of that name.")
@click.option("--thresholds", type=_path, metavar="FILE", help="Limits as a TOML file.")
@click.option(
    "--match", type=_path, metavar="FILE", help="Pinned and forbidden matches as a TOML file."
)
@click.option(
    "--undumped-outputs",
    type=_path,
    metavar="FILE|DIR",
    help="Outputs of the device's run without dumping: is the dumped run the same?",
)
@click.option(
    "--undumped-graph",
    type=_path,
    metavar="FILE",
    help="The device's graph without dumping: what did it fuse otherwise?",
)
@click.option(
    "--weights",
    type=_path,
    metavar="FILE",
    help="Golden Caffe net: its .caffemodel (default: the one next to it, with its name).",
)
@report_options
@method_option
@root_cause_options
@worker_options
@common
def compare_command(
    golden: Path,
    golden_dump: Path | None,
    device: Path,
    device_dump: Path | None,
    ranks: str | None,
    steps: str | None,
    name: str | None,
    replace_it: bool,
    places: ReportPlaces,
    store: str | None,
    as_json: bool,
    **options: Unpack[CompareOptions],
) -> int:
    """Compare two dumps tensor by tensor and say where the error starts.

    Exit code 0: nothing diverged, 1: diverged, 2: bad input, exchanged sides, or
    nothing comparable.
    """
    from divergraph.api.compare import compare

    if as_json and places.to_standard_output:
        raise InputError("--json and a report cannot both go to standard output")
    paths = (golden, golden_dump, device, device_dump)
    if ranks is not None or steps is not None:
        if places.paths:
            raise InputError(
                "a report is of one run", hint="write them one by one: divergraph report RUN"
            )
        from divergraph.cli.make.compare_many import compare_places

        return compare_places(
            paths,
            options,
            ranks,
            steps,
            name=name,
            replace_it=replace_it,
            store=store,
            as_json=as_json,
        )
    with opened(store) as opened_store:
        run = compare(
            *paths, name=name, store=opened_store, replace=replace_it, progress=True, **options
        )
        data, is_stored = run.data, run.kept
        if places.paths:
            from divergraph.present.run_report import stored_report, unkept_report

            report = (
                stored_report(opened_store, data.run.name, data)
                if is_stored
                else unkept_report(data)
            )
            places.write(report, lambda: data)
    if doubt := data.run.analysis.doubt:
        say_doubt(doubt)
    for warning in data.run.warnings:
        if warning != doubt:
            say_note(warning)
    _show(
        data,
        store_url(store),
        as_json=as_json,
        is_stored=is_stored,
        quiet=places.to_standard_output,
    )
    return outcome_of_verdict(data.run.verdict).exit_code


def _show(data: RunData, store: str, *, as_json: bool, is_stored: bool, quiet: bool) -> None:
    if as_json:
        print_record(RunVerdict.of(data, stored=is_stored))
    elif not quiet:  # else standard output holds a report
        show_run(data)
    if is_stored:
        tell_kept(data.run.name)
        say_beside(f"kept as {data.run.name} in {store}")
    else:
        say_error("divergraph: nothing could be compared, so nothing was kept (see the reasons)")
