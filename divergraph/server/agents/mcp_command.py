"""``divergraph mcp``."""

from __future__ import annotations

from importlib.resources import files

import click

from divergraph.cli.options import opened_to_read, packs_option, store_option
from divergraph.cli.say import say_lines
from graphstore.cypher.queries import list_queries
from graphstore.errors import InputError


@click.command("mcp")
@click.option("--skill", is_flag=True, help="Print the SKILL.md for agents, ask nothing.")
@packs_option
@store_option
def mcp_command(skill: bool, store: str | None) -> None:
    """Answer an agent over the Model Context Protocol, on standard input and output.

    An agent's client starts it. Its tools only read: they are named as the commands, take their
    options and answer what those print with --json, the first entries of long lists only.
    Needs the extra mcp.
    """
    text = files("divergraph.server.agents").joinpath("SKILL.md").read_text(encoding="utf-8")
    if skill:
        say_lines(text)
        return
    list_queries()  # what is wrong with a pack is said before anybody asks
    try:
        from divergraph.server.agents.protocol import serve
    except ImportError as error:
        hint = "pip install 'divergraph[mcp]'"
        raise InputError("the MCP library is not installed", hint=hint) from error
    instructions = text.split("---\n", 2)[2].strip()
    with opened_to_read(store) as opened_store:
        serve(opened_store, instructions)
