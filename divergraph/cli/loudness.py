"""``-q`` and ``-v``: options of every command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

import click

from divergraph.cli.say import say_beside
from divergraph.text.loudness import Loudness, loudness, told_with

_OPTIONS = (
    ("quiet", Loudness.QUIET, "Print the answer and errors only."),
    ("verbose", Loudness.VERBOSE, "Say on standard error what takes how long."),
)


def with_loudness(command: click.Command) -> click.Command:
    """*command*, and all below it, with both options; once, however often it is asked for."""
    names = {name for param in command.params for name in param.opts}
    if "--verbose" not in names:
        command.params += [_option(*option, names) for option in _OPTIONS]
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_loudness(below)
    return command


def is_loudness(param: click.Parameter) -> bool:
    """Whether *param* is one of these, which every command has."""
    return "--quiet" in param.opts or "--verbose" in param.opts


def _option(name: str, wanted: Loudness, help_text: str, used_names: set[str]) -> click.Option:
    names = [name_form for name_form in (f"-{name[0]}", f"--{name}") if name_form not in used_names]
    return click.Option(
        [*names, f"is_{name}"],
        is_flag=True,
        expose_value=False,
        callback=_setter(wanted),
        help=help_text,
    )


def _setter(wanted: Loudness) -> Callable[[click.Context, click.Parameter, bool], None]:
    def set_it(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
        if not is_set:
            return
        if loudness() is not Loudness.USUAL and loudness() is not wanted:
            raise click.UsageError("give -q or -v, not both", ctx)
        is_new = loudness() is not wanted
        ctx.with_resource(told_with(wanted))
        if wanted is Loudness.VERBOSE and is_new:
            ctx.with_resource(log_lines())

    return set_it


_PACKAGES = ("divergraph", "graphstore", "importers")


class _Lines(logging.Handler):
    """Prints records as all else is printed: safe to look at."""

    def emit(self, record: logging.LogRecord) -> None:
        say_beside(self.format(record))


@contextmanager
def log_lines() -> Iterator[None]:
    """What our packages log is printed while the block runs, and at the end what it took."""
    began, used = perf_counter(), process_time()
    handler, loggers = _Lines(), [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        took, busy = perf_counter() - began, process_time() - used
        say_beside(f"{took:8.3f} s  in all, {busy:.3f} s of them computing in this process")
