"""``divergraph open``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened, print_json
from divergraph.cli.say import say_note, tell_kept
from divergraph.cli.text import show_run
from divergraph.outcomes import outcome_of_verdict
from divergraph.present.json.shapes import run_json

_path = click.Path(path_type=Path, readable=False)


@click.command("open")
@click.argument("result", type=_path)
@click.option(
    "--device",
    type=_path,
    metavar="GRAPH",
    help="The device's graph: its edges say where errors start (default: the order of the rows).",
)
@click.option("--thresholds", type=_path, metavar="FILE", help="TOML file with other limits.")
@click.option("--run", metavar="NAME", help="Name of the run; default: run-N.")
@click.option("--replace", "replace_it", is_flag=True, help="Overwrite a run of that name.")
@common
def open_command(
    result: Path,
    device: Path | None,
    thresholds: Path | None,
    run: str | None,
    replace_it: bool,
    store: str | None,
    as_json: bool,
) -> int:
    """Open RESULT, a table of another tool, as a run: browse it, ask it, be advised.

    RESULT is msaccucmp's result_*.csv or msprobe's compare_result*.csv or .xlsx. Exit codes are
    those of compare.
    """
    from divergraph.api.runs.opened_results import open_result

    with opened(store) as opened_store:
        data = open_result(
            result,
            device=device,
            thresholds=thresholds,
            store=opened_store,
            run=run,
            replace_it=replace_it,
        ).data
    tell_kept(data.run.name)
    for warning in data.run.warnings:
        say_note(warning)
    if as_json:
        types = {op.id: op.type for op in data.device.ops}
        print_json(run_json(data.run, data.origins, data.comparisons, types))
    else:
        show_run(data.run, data.origins, data.comparisons)
    return outcome_of_verdict(data.run.verdict).exit_code
