"""``divergraph export``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened_to_read, print_done, side_option
from divergraph.cli.run_name import RUN
from graphstore.model import Side


@click.command("export")
@click.argument("run", type=RUN)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Its ending says the format: .json, .csv (report of a run), .graphml, "
    ".html (the picture of its graphs, to open offline).",
)
@click.option("--against", type=RUN, default="", help="In .html: how it changed since this run.")
@side_option
@common
def export_command(
    run: str, output: Path, against: str, side: str, store: str | None, as_json: bool
) -> None:
    """Write RUN, a run or imported graph, to a file."""
    from divergraph.present.export_file import export

    with opened_to_read(store) as opened_store:
        export(opened_store, run, output, Side(side), against)
    print_done({"run": run, "path": str(output)}, f"wrote {output}", as_json=as_json)
