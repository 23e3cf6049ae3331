"""``divergraph dump-config``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.api.files.job_setup import FORMS, MODES, DumpSettings, config_text
from divergraph.cli.options import print_json
from divergraph.cli.say import say_lines, say_note
from divergraph.files.whole_files import whole_file


@click.command("dump-config")
@click.argument("form", type=click.Choice(list(FORMS)))
@click.option("-o", "--output", type=click.Path(path_type=Path, readable=False), metavar="FILE")
@click.option("--path", default=DumpSettings().path, show_default=True, help="Where to dump.")
@click.option("--mode", type=click.Choice(MODES), default="all", show_default=True)
@click.option("--steps", default="0", show_default=True, metavar="0|5|10")
@click.option("--model", default="", metavar="NAME", help="acl-json: only this offline model.")
@click.option("--layer", "layers", multiple=True, metavar="OP", help="acl-json: only this op.")
@click.option("--overflow", is_flag=True, help="Find overflows instead.")
@click.option("--fusion-switch", "switch", default="", metavar="FILE", help="Fusion switch file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def dump_config_command(
    form: str,
    output: Path | None,
    path: str,
    mode: str,
    steps: str,
    model: str,
    layers: tuple[str, ...],
    overflow: bool,
    switch: str,
    as_json: bool,
) -> None:
    """Write what makes a device dump: acl.json, or Python for an Estimator or a session.

    tf-config is the module divergraph.tf_config, for environments without Divergraph. `fusion
    --write` makes switch files.
    """
    settings = DumpSettings(path, mode, steps, model, layers, overflow, switch)
    text = config_text(form, settings)
    if output is not None:
        with whole_file(output) as place:
            place.write_text(text, encoding="utf-8")
        say_note(f"written to {output}")
    if as_json:
        print_json({"form": form, "text": text, "path": None if output is None else str(output)})
    elif output is None:
        say_lines(text)
