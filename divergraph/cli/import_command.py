"""``divergraph import``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import common, opened, print_json
from divergraph.json_shapes import import_json
from divergraph.wording import counted


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, readable=False))
@click.option("--name", metavar="N", help="Name in the store; default: the graph's own.")
@click.option("--replace", "replace_it", is_flag=True, help="Overwrite a graph of that name.")
@common
def import_command(
    path: Path, name: str | None, replace_it: bool, store: str | None, as_json: bool
) -> None:
    """Read a graph file (or a folder of ge_proto_* files) into the store."""
    from divergraph.imports import import_into

    with opened(store) as opened_store:
        info, source = import_into(opened_store, path, name=name, replace_it=replace_it)
    for note in source.notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        print_json(import_json(info, source.graph))
        return
    for warning in source.graph.warnings:
        click.echo(f"note: {warning}", err=True)
    click.echo(
        f"{info.name}: {info.framework} {info.kind} graph ({info.format}), "
        f"{counted(info.ops, 'op')}, {counted(info.edges, 'edge')}, "
        f"{counted(info.subgraphs, 'sub-graph')}, {counted(info.fused_ops, 'fused op')}"
    )
