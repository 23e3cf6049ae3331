"""The command group: commands are loaded when used, errors become one line and a code."""

from __future__ import annotations

import difflib
import errno
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedWriter, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import cast

import click

from divergraph.cli.command_table import OTHER_TOOLS, command_names, command_of, helped_sections
from divergraph.cli.error_text import error_text, is_unforeseen
from divergraph.cli.loudness import with_loudness
from divergraph.cli.say import say_error, say_usage
from divergraph.files.config_file import read_config
from divergraph.jobs.background.own_process import as_job, own_progress
from divergraph.outcomes import BAD_INPUT, outcome_of_error
from divergraph.version import __version__
from graphstore.errors import UnknownNameError


def fit_streams() -> None:
    """Make them fit to use, however the process was started.

    Without one, its number would go to the next file that is opened, and what is printed into it.
    Characters the encoding of a terminal does not have are printed as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if isinstance(stream.buffer, RawIOBase):  # PYTHONUNBUFFERED
                setattr(sys, name, _written_whole(stream))


def _written_whole(stream: TextIOWrapper) -> TextIOWrapper:
    """*stream* with a buffer: without one, what a full disk takes a part of is cut in silence."""
    buffered = BufferedWriter(cast(RawIOBase, stream.buffer))
    return TextIOWrapper(buffered, stream.encoding, stream.errors, line_buffering=True)


def drop_unwritten() -> None:
    """Leave nothing for Python to flush when it ends.

    What could not be written stays in a stream's buffer. Python would try once more at exit,
    complain of it in lines of its own and end with 120, whatever the exit code was.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the command said so already, if anything could be said
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


# What shells show of a program whose reader went away: no verdict, and no error either.
READER_GONE = 141


_TELLS_OF_SETTINGS = frozenset({"completion", "doctor", "schema"})


class _ReaderGoneError(Exception):
    """Who reads what is printed went away."""


@contextmanager
def _kept_from_click() -> Iterator[None]:
    """Keep errors from Click that it takes for others.

    With a broken pipe it would exit with 1, which means "diverged" here; the end of a file it
    takes for somebody who leaves a prompt.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error
    except EOFError as error:
        if "marshal" not in str(error):
            raise RuntimeError(f"end of file: {error}") from error
        # Python may keep what a full disk took of a compiled module.
        message = "a compiled module below it is cut short: delete its folders __pycache__"
        raise OSError(errno.EIO, message, str(Path(__file__).parents[2])) from error


def _meant(name: str) -> str:
    """Which commands may be meant by *name*, which is none; empty if it is like none."""
    from divergraph.cli.precision_tool.commands import precision_tool_command

    if name in OTHER_TOOLS:
        page = f"docs/coming-from/{OTHER_TOOLS[name]}.md"
        return f"{page} says what does the same here."
    matches = difflib.get_close_matches(name, command_names())
    if name in precision_tool_command.commands:
        matches = [f"precision-tool {name}"]
    return f"Did you mean {' or '.join(matches)}?" if matches else ""


class _LazyGroup(click.Group):
    """Loads a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return with_loudness(command_of(cmd_name))
        except UnknownNameError:
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = _meant(args[0])
            if not meant:
                raise
            raise click.UsageError(f"{error.message} {meant}", ctx) from error
        if name is not None and command is not None:
            self._with_defaults(ctx, name, command)
        return name, command, rest

    def _with_defaults(self, ctx: click.Context, name: str, command: click.Command) -> None:
        """What the user's configuration sets for *command*, unless it says itself what is set."""
        if name in _TELLS_OF_SETTINGS or ctx.resilient_parsing:
            return
        config = read_config()
        if config.content:
            from divergraph.cli.configured import check_commands, defaults, settings

            check_commands(config, command_names())
            ctx.default_map = defaults(settings(config, name, command))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        with _kept_from_click():  # --help and --version print here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _kept_from_click():
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = helped_sections()
        width = max(len(name) for listed in sections.values() for name in listed)
        for heading, listed in sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), help_text) for name, help_text in listed.items()]
                )


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 nothing diverged, 1 diverged, 2 bad usage or input, 3 trouble.",
)
@click.version_option(__version__, prog_name="divergraph")
def cli() -> None:
    """Find the op where an accelerator's error starts, and how it spreads."""


with_loudness(cli)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    fit_streams()
    with as_job() as job:
        code = job.exit_code = run(arguments)
    drop_unwritten()
    gc.freeze()  # at exit nothing is to be collected either
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code and never lets an error through."""
    try:
        result = cli.main(arguments, prog_name="divergraph", standalone_mode=False)
    except _ReaderGoneError:
        return READER_GONE  # nobody is left to be told
    except click.ClickException as error:
        say_usage(error)
        _tell_failed(error.format_message())
        return BAD_INPUT.exit_code
    except (click.Abort, KeyboardInterrupt):
        say_error("stopped")
        return 130
    except Exception as error:
        if is_unforeseen(error) and os.environ.get("DIVERGRAPH_DEBUG"):
            raise
        _fail(error_text(error))
        return outcome_of_error(error).exit_code
    return result if isinstance(result, int) else 0


def _fail(text: str) -> None:
    say_error(f"divergraph: {text}")
    _tell_failed(text)


def _tell_failed(text: str) -> None:
    if (own := own_progress()) is not None:
        own.failed(text)
