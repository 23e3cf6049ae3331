"""``divergraph analyse``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened, print_json, root_cause_options
from divergraph.cli.say import say_note, tell_kept
from divergraph.cli.text import show_run
from divergraph.outcomes import outcome_of_verdict
from divergraph.present.json.shapes import run_json


@click.command("analyse")
@click.argument("run")
@click.option(
    "--thresholds",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="TOML file with other limits; a run without root cause needs no files for that.",
)
@root_cause_options
@common
def analyse_command(
    run: str,
    thresholds: Path | None,
    suspect: float,
    guilty: float,
    precision: str,
    memory: int,
    store: str | None,
    as_json: bool,
) -> int:
    """Find the root cause in a RUN compared before, or judge it by other limits.

    Its models and dumps must still lie where they were. Exit codes are those of compare.
    """
    from divergraph.api.runs.compared_run import ComparedRun

    with opened(store) as opened_store:
        analysed = ComparedRun(run, store=opened_store).analyse(
            suspect=suspect,
            guilty=guilty,
            precision=precision,
            memory=memory,
            thresholds=thresholds,
            progress=True,
        )
    data = analysed.data
    tell_kept(data.run.name)
    for warning in data.run.warnings:
        say_note(warning)
    if as_json:
        types = {op.id: op.type for op in data.device.ops}
        print_json(run_json(data.run, data.origins, data.comparisons, types))
    else:
        show_run(data.run, data.origins, data.comparisons)
    return outcome_of_verdict(data.run.verdict).exit_code
