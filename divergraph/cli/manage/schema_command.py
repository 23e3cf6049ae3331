"""``divergraph schema``: the form of what commands print with ``--json``."""

from __future__ import annotations

import json

import click

from divergraph.cli.options import print_json
from divergraph.cli.say import say, say_json


@click.command("schema")
@click.argument("command", required=False)
@click.option("--json", "as_json", is_flag=True, help="All schemas as one JSON document.")
def schema_command(command: str | None, as_json: bool) -> None:
    """Print the JSON Schema of what COMMAND prints with --json; without it, list the commands."""
    from divergraph.present.schema import commands, shipped_schema

    if as_json:
        chosen = commands() if command is None else (command,)
        print_json({"schemas": {name: json.loads(shipped_schema(name)) for name in chosen}})
    elif command is not None:
        say_json(shipped_schema(command).rstrip())
    else:
        for name in commands():
            say(name)
