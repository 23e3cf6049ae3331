"""``divergraph report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.ask.report_options import REPORT_PATH, report_options
from divergraph.cli.options import common, opened_to_read, print_json
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say_beside
from divergraph.present.json_text import Json
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.present.destination import ReportPlaces


@click.command("report")
@click.argument("run", type=RUN)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=REPORT_PATH,
    metavar="FILE",
    help="Write what its ending says: .csv, .html, .xml (JUnit), .md, .parquet or .sarif.",
)
@report_options
@common
def report_command(run: str, places: ReportPlaces, store: str | None, as_json: bool) -> None:
    """Write down what a RUN shows, for people, CI servers and other programs.

    Several forms at once; without any, the Markdown summary is printed.
    """
    from divergraph.present.destination import ReportKind, ReportPlaces
    from divergraph.present.run_report import stored_report

    if not places.paths and not as_json:
        places = ReportPlaces({ReportKind.MARKDOWN: Path("-")})
    if as_json and (places.to_standard_output or not places.paths):
        raise InputError(
            "--json prints the list of the files written",
            hint="give at least one file, and none on standard output",
        )
    with opened_to_read(store) as opened_store:
        opened_store.run(run)
        places.write(stored_report(opened_store, run), lambda: opened_store.run_data(run))
    if as_json:
        files: list[Json] = [
            {"kind": kind.value, "path": str(path)} for kind, path in places.paths.items()
        ]
        print_json({"run": run, "files": files})
        return
    for path in places.files:
        say_beside(f"wrote {path}")
