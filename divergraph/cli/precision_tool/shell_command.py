"""``divergraph shell``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from divergraph.cli.command_table import command_names
from divergraph.cli.main import run as run_ours
from divergraph.cli.options import STORE_VARIABLE, store_url
from divergraph.cli.precision_tool.commands import precision_tool_command, system
from divergraph.cli.precision_tool.place import ToolPlace
from divergraph.cli.say import say_beside, say_error

_ENDS = frozenset({"exit", "quit", "q"})
_NOT_HERE = frozenset({"mcp", "shell", "tui"})
_PROMPT = "divergraph> "


@click.command("shell")
@click.option(
    "--data",
    type=click.Path(path_type=Path, readable=False),
    default="precision_data",
    show_default=True,
    metavar="DIR",
    help="precision_tool's data folder.",
)
@click.option("--run", "name", metavar="NAME", help="The run precision_tool's commands are about.")
@click.option("--store", metavar="DIR|URL", help="Where runs are kept, as for all commands.")
def shell_command(data: Path, name: str | None, store: str | None) -> int:
    """Ask one thing after the other: our commands without `divergraph`, precision_tool's as there.

    `use RUN` and `data DIR` change what precision_tool's commands are about, `!` is before commands
    of the system; programs it knows need none. Without a terminal lines are read from standard
    input; the exit code is then the highest of all lines.
    """
    before = os.environ.get(STORE_VARIABLE)
    os.environ[STORE_VARIABLE] = store_url(store)
    try:
        return _Shell(ToolPlace(data, None, name)).ask()
    finally:
        if before is None:
            del os.environ[STORE_VARIABLE]
        else:
            os.environ[STORE_VARIABLE] = before


class _Shell:
    """Reads lines and does what they say until there is none."""

    def __init__(self, place: ToolPlace) -> None:
        self.place = place
        self._tool = sorted(precision_tool_command.commands)

    def ask(self) -> int:
        """The highest exit code of the lines; of a terminal 0."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return max(map(self._do, _until_end(sys.stdin)), default=0)
        from divergraph.cli.precision_tool.prompt import Prompt

        say_beside("Commands: help; precision_tool's: " + ", ".join(self._tool))
        prompt = Prompt(lambda: self.place, (*self._ours(), *self._tool, "use", "data", "help"))
        for line in _until_end(prompt.lines(_PROMPT)):
            self._do(line)
        return 0

    @staticmethod
    def _ours() -> list[str]:
        return [name for name in command_names() if name not in _NOT_HERE]

    def _do(self, line: str) -> int:
        line = line.strip()
        if not line or line.startswith("#"):
            return 0
        if line.startswith("!"):
            return system(line[1:])
        try:
            words = shlex.split(line)
        except ValueError as error:
            say_error(f"divergraph: {error}")
            return 2
        return self._command(line, words)

    def _command(self, line: str, words: list[str]) -> int:
        first, *rest = words
        if first in ("use", "data"):
            return self._changed(first, rest)
        if first in ("help", "?"):
            return run_ours([*rest, "--help"] if rest else ["--help"])
        if first == "run":
            return system(line.partition("run")[2])
        if first in self._tool:
            options = ["--data", str(self.place.data)]
            options += ["--run", self.place.run] if self.place.run else []
            return run_ours(["precision-tool", *options, *words])
        if first in command_names() and first not in _NOT_HERE:
            return run_ours(words)
        if shutil.which(first) is not None:
            return system(line)
        say_error(f"divergraph: {first}: no such command; `help` lists ours")
        return 2

    def _changed(self, what: str, rest: list[str]) -> int:
        if len(rest) != 1:
            say_error(f"divergraph: {what} takes one name")
            return 2
        if what == "use":
            self.place = replace(self.place, run=rest[0])
        else:
            self.place = replace(self.place, data=Path(rest[0]))
        return 0


def _until_end(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() in _ENDS:
            return
        yield line
