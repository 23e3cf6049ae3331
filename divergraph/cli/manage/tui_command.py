"""``divergraph tui``: the UI is an entry point, this package never imports one."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import click

from divergraph.cli.options import common, packs_option, print_json, store_url
from divergraph.cli.run_name import RUN
from graphstore.cypher.queries import list_queries
from graphstore.errors import InputError

GROUP = "divergraph.ui"


@click.command("tui")
@click.argument("run", type=RUN, required=False)
@click.option("--server", metavar="URL", help="The same as --store URL: what a server keeps.")
@packs_option
@common
def tui_command(run: str | None, server: str | None, store: str | None, as_json: bool) -> int:
    """Browse runs in the terminal. With --json: say which UI would start."""
    if server is not None and store is not None:
        raise click.UsageError("--server and --store are the same: give one of them")
    store = server or store
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    if not entries:
        raise InputError("no terminal UI is installed", hint="reinstall divergraph")
    url = store_url(store)
    if as_json:
        print_json({"ui": entries[0].name, "store": url, "run": run})
        return 0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        # It would draw into a file for ever, with no key that ends it.
        raise InputError(
            "the terminal UI needs a terminal, and here is a file or pipe",
            hint="`divergraph ops RUN` and `divergraph origins RUN` print what it shows",
        )
    list_queries()  # what is wrong with a pack is said here, where it can be read
    start = entries[0].load()
    code: int = start(url, run)
    return code
