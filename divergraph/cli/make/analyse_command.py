"""``divergraph analyse``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.cli.make.kept_run import show_kept_run
from divergraph.cli.options import common, opened, root_cause_options
from divergraph.cli.run_name import RUN

if TYPE_CHECKING:
    from divergraph.api.arguments import JudgingOptions


@click.command("analyse")
@click.argument("run", type=RUN)
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
    store: str | None,
    as_json: bool,
    **judging: Unpack[JudgingOptions],
) -> int:
    """Find the root cause in a RUN compared before, or judge it by other limits.

    Its models and dumps must still lie where they were. Exit codes are those of compare.
    """
    from divergraph.api.runs.compared_run import ComparedRun

    with opened(store) as opened_store:
        compared = ComparedRun(run, store=opened_store)
        analysed = compared.analyse(thresholds=thresholds, progress=True, **judging)
    return show_kept_run(analysed.data, as_json=as_json)
