"""Every command in the pages for users of other tools is one that there is, options and all."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from divergraph.cli.command_table import command_names
from divergraph.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "coming-from").glob("*.md"))
_SPAN = re.compile(r"`(divergraph [^`]+)`")


def right_side(page: Path) -> list[str]:
    """The commands on our side of the page's tables."""
    rows = [line for line in page.read_text(encoding="utf-8").split("\n") if line.startswith("| ")]
    cells = (re.split(r"(?<!\\)\|", row)[2:] for row in rows)
    return [span.replace("\\|", "|") for row in cells for span in _SPAN.findall("|".join(row))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_can_be_given(page):
    commands = right_side(page)
    assert commands
    for command in commands:
        _, name, *arguments = shlex.split(command)
        assert name in command_names(), command
        loaded = cli.get_command(click.Context(cli), name)
        context = click.Context(loaded, info_name=name)
        loaded.make_parser(context).parse_args(list(arguments))  # raises for what is no option
