"""``divergraph dump-config``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from divergraph.api.files.job_setup import FORMS, MODES, DumpSettings, config_text
from divergraph.cli.options import common, opened_to_read, print_json
from divergraph.cli.say import say_lines, say_note
from divergraph.files.whole_files import whole_file
from graphstore.errors import InputError
from graphstore.model import Side


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
@click.option("--run", metavar="RUN", help="msprobe: only what this run leaves open.")
@click.option(
    "--side",
    type=click.Choice([side.value for side in Side]),
    default=Side.DEVICE.value,
    show_default=True,
    help="--run: the side that is to be dumped.",
)
@common
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
    run: str | None,
    side: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Write what makes a dump: acl.json, Python for an Estimator or a session, or msprobe's
    config.json.

    msprobe with --run has the calls, ranks and step whose values tell where the error of that run
    of statistics starts. tf-config is the module divergraph.tf_config, for environments without
    Divergraph. `fusion --write` makes switch files.
    """
    settings = DumpSettings(path, mode, steps, model, layers, overflow, switch)
    if run is not None:
        settings = _of_run(settings, form, run, Side(side), store)
    text = config_text(form, settings)
    if output is not None:
        with whole_file(output) as place:
            place.write_text(text, encoding="utf-8")
        say_note(f"written to {output}")
    if as_json:
        print_json({"form": form, "text": text, "path": None if output is None else str(output)})
    elif output is None:
        say_lines(text)


def _of_run(
    settings: DumpSettings, form: str, run: str, side: Side, store: str | None
) -> DumpSettings:
    """*settings* with what is to be dumped next of one side of *run*."""
    from divergraph.ask.next_calls import next_calls

    if form != "msprobe":
        raise InputError(f"--run goes with msprobe, not with {form}")
    with opened_to_read(store) as opened_store:
        found = next_calls(opened_store.run_data(run), side)
    steps = "|".join(map(str, found.steps)) or settings.steps
    return replace(settings, calls=found.calls, ranks=found.ranks, steps=steps)
