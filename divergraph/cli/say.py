"""The one way by which text reaches the terminal: line by line, and safe to look at."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from io import StringIO
from itertools import islice

import click

from divergraph.jobs.background.own_process import own_progress
from divergraph.text.loudness import Loudness, loudness
from divergraph.text.printable import printable, printable_json

_FIRST_PARTS = 50
_PARTS = 4096


def say(line: str = "", *, bold: bool = False) -> None:
    """Print one *line* of the answer; what a terminal would obey in it, line ends too, is shown as
    an escape."""
    _print(line, err=False, bold=bold)


def say_beside(line: str, *, bold: bool = False) -> None:
    """Print one *line* that accompanies the answer, on standard error; with ``-q`` nothing."""
    if loudness() is not Loudness.QUIET:
        _print(line, err=True, bold=bold)


def say_error(line: str, *, bold: bool = False) -> None:
    """Print one *line* on standard error, of what went wrong."""
    _print(line, err=True, bold=bold)


def _print(line: str, *, err: bool, bold: bool = False) -> None:
    """A full disk or a reader that went away ends the work only if the answer, on standard output,
    is lost: what goes to standard error accompanies it, and nowhere is left to complain."""
    text = printable(line)
    with suppress(OSError) if err else nullcontext():
        click.echo(click.style(text, bold=True) if bold else text, err=err)


def say_note(text: str) -> None:
    """Say on standard error what should be known of the answer; a job lists it, too."""
    say_beside(f"note: {text}")
    if (own := own_progress()) is not None:
        own.problem(text)


def say_doubt(text: str) -> None:
    """Say in bold, before whatever else there is to say, why the answer may mean nothing: with
    ``-q``, too."""
    say_error(f"doubt: {text}", bold=True)
    if (own := own_progress()) is not None:
        own.problem(f"doubt: {text}")


def tell_kept(name: str) -> None:
    """Tell the job, if this process does one, that a run or graph of this name is in the store."""
    if (own := own_progress()) is not None:
        own.kept(name)


def say_each(lines: Iterable[str]) -> None:
    """Print *lines* at once: of thousands, each by itself takes several times as long."""
    if texts := list(map(printable, lines)):
        click.echo("\n".join(texts))


def ring() -> None:
    """Ring the bell of the terminal, where there is one."""
    if sys.stderr.isatty() and loudness() is not Loudness.QUIET:
        with suppress(OSError):
            click.echo("\a", nl=False, err=True)


def say_lines(text: str, tell: Callable[[str], None] = say) -> None:
    """Print *text*, several lines in which no name can hold a line end."""
    for line in text.removesuffix("\n").split("\n"):
        tell(line)


def say_cells(cells: Iterable[str]) -> None:
    """Print one line of *cells* with tabs between them, and none inside."""
    click.echo("\t".join(map(printable, cells)))


def say_json(text: str) -> None:
    """Print one JSON document: all of its data, as escapes what a terminal would obey."""
    say_json_parts((text,))


def say_json_parts(parts: Iterable[str]) -> None:
    """Print one JSON document, a few of its *parts* as soon as they are there, then a few thousand
    at once while others are not made yet."""
    utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    ahead, size = iter(parts), _FIRST_PARTS
    while part := "".join(islice(ahead, size)):
        # JSON in any other encoding is none
        click.echo(printable_json(part, ascii_only=not utf8), nl=False)
        size = _PARTS
    click.echo()


def say_usage(error: click.ClickException) -> None:
    """Print what Click says of a command line, which may quote anything."""
    usage = StringIO()
    error.show(usage)
    say_lines(usage.getvalue().expandtabs(2), say_error)
