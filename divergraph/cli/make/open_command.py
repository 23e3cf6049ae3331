"""``divergraph open``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.make.kept_run import show_kept_run
from divergraph.cli.options import common, opened
from divergraph.cli.run_name import NAME_IS_RUN

_path = click.Path(path_type=Path, readable=False)


@click.command("open", context_settings=NAME_IS_RUN)
@click.argument("result", type=_path)
@click.option(
    "--device",
    type=_path,
    metavar="GRAPH",
    help="The device's graph: its edges say where errors start (default: the order of the rows).",
)
@click.option("--thresholds", type=_path, metavar="FILE", help="TOML file with other limits.")
@click.option("--step", type=int, metavar="N", help="Of a .vis.db with several steps this one.")
@click.option("--rank", type=int, metavar="N", help="Of a .vis.db with several ranks this one.")
@click.option("--run", metavar="NAME", help="Name of the run; default: run-N.")
@click.option("--replace", "replace_it", is_flag=True, help="Overwrite a run of that name.")
@common
def open_command(
    result: Path,
    device: Path | None,
    thresholds: Path | None,
    step: int | None,
    rank: int | None,
    run: str | None,
    replace_it: bool,
    store: str | None,
    as_json: bool,
) -> int:
    """Open RESULT, a table of another tool, as a run: browse it, ask it, be advised.

    RESULT is msaccucmp's result_*.csv, or msprobe's compare_result*.csv or .xlsx, or .vis.db of
    its graphs. Exit codes are those of compare.
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
            step=step,
            rank=rank,
        ).data
    return show_kept_run(data, as_json=as_json)
