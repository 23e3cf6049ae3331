"""``divergraph lineage`` and ``between``."""

from __future__ import annotations

import click

from divergraph.cli.options import common, opened_to_read, print_json
from divergraph.cli.say import say
from divergraph.cli.text import (
    show_links,
    show_rows,
    show_unmatched,
)
from divergraph.present.json.shapes import (
    link_json,
    row_json,
    unmatched_json,
)


@click.command("lineage")
@click.argument("run")
@click.argument("op", required=False)
@click.option("--unmatched", "is_unmatched", is_flag=True, help="List the ops without any.")
@common
def lineage_command(
    run: str, op: str | None, is_unmatched: bool, store: str | None, as_json: bool
) -> None:
    """Show which originals a device op was made of, or where an original went.

    The word in brackets is the rule that found the link; a number after a name is the output
    that equals the one on the other side. With --unmatched instead of OP: all ops of both
    sides that have no counterpart, and why.
    """
    from divergraph.ask import lineage, unmatched

    if is_unmatched == (op is not None):
        raise click.UsageError("give either an op or --unmatched")
    with opened_to_read(store) as opened_store:
        if op is None:
            found = unmatched(opened_store, run)
            if as_json:
                print_json({"run": run, **unmatched_json(found)})
            else:
                show_unmatched(found)
            return
        links = lineage(opened_store, run, op)
    if as_json:
        print_json({"run": run, "op": op, "links": [link_json(link) for link in links]})
    else:
        show_links(op, links)


@click.command("between")
@click.argument("run")
@click.argument("start")
@click.argument("end")
@common
def between_command(run: str, start: str, end: str, store: str | None, as_json: bool) -> None:
    """List the ops on any path from START to END, both included, as `ops` does."""
    from divergraph.ask import ops_between

    with opened_to_read(store) as opened_store:
        rows = ops_between(opened_store, run, start, end)
    if as_json:
        print_json({"run": run, "start": start, "end": end, "ops": [row_json(row) for row in rows]})
        return
    if not rows:
        say(f"no path leads from {start} to {end}", err=True)
    show_rows(rows)
