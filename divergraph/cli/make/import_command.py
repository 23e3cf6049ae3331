"""``divergraph import``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened, print_record
from divergraph.cli.say import say, say_beside, say_note, tell_kept
from divergraph.text.words import counted


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, readable=False))
@click.option("--name", metavar="NAME", help="Name in the store; default: the graph's own.")
@click.option("--replace", "replace_it", is_flag=True, help="Overwrite a graph of that name.")
@click.option(
    "--weights",
    type=click.Path(path_type=Path, readable=False),
    help="The .caffemodel of a Caffe .prototxt.",
)
@click.option(
    "--phase",
    type=click.Choice(["TRAIN", "TEST"], case_sensitive=False),
    help="Which layers of a Caffe net; default: what it says, else TEST.",
)
@click.option(
    "-O",
    "--option",
    "others",
    multiple=True,
    metavar="NAME=VALUE",
    help="A further option of the file's format, such as tags=serve,gpu of a SavedModel.",
)
@common
def import_command(
    path: Path,
    name: str | None,
    replace_it: bool,
    weights: Path | None,
    phase: str | None,
    others: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Read a graph file (or a folder of ge_proto_* files) into the store."""
    from divergraph.api.store import Store
    from importers.fusion_result import passes_note

    settings = {"weights": weights, "phase": phase}
    options = {key: str(value) for key, value in settings.items() if value is not None}
    for other in others:
        key, equals, value = other.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{other!r} is not NAME=VALUE", param_hint="--option")
        options[key] = value
    with opened(store) as opened_store:
        info, source, unchanged = Store(opened_store).import_graph(
            path, name, replace=replace_it, options=options
        )
    tell_kept(info.name)
    for note in source.notes:
        say_note(note)
    if as_json:
        warnings = list(source.graph.warnings)
        print_record(info, "ImportAnswer", unchanged=unchanged, warnings=warnings)
        return
    for warning in source.graph.warnings:
        say_note(warning)
    if passes := passes_note(source.graph):
        say_note(passes)
    say(
        f"{info.name}: {info.framework} {info.kind} graph ({info.format}), "
        f"{counted(info.ops, 'op')}, {counted(info.edges, 'edge')}, "
        f"{counted(info.subgraphs, 'sub-graph')}, {counted(info.fused_ops, 'fused op')}"
    )
    if unchanged:
        say_beside(f"{info.name}: already there, unchanged")
