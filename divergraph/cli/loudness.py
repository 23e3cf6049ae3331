"""``-q`` and ``-v``: options of every command."""

from __future__ import annotations

from collections.abc import Callable

import click

from divergraph.text.loudness import Loudness, loudness, told_with

_OPTIONS = (
    ("quiet", Loudness.QUIET, "Print the answer and errors only."),
    ("verbose", Loudness.VERBOSE, "Say on standard error what takes how long."),
)


def with_loudness(command: click.Command) -> click.Command:
    """*command*, and all below it, with both options; once, however often it is asked for."""
    taken = {name for param in command.params for name in param.opts}
    if "--verbose" not in taken:
        command.params += [_option(*each, taken) for each in _OPTIONS]
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_loudness(below)
    return command


def is_loudness(param: click.Parameter) -> bool:
    """Whether *param* is one of these, which every command has."""
    return "--quiet" in param.opts or "--verbose" in param.opts


def _option(name: str, wanted: Loudness, said: str, taken: set[str]) -> click.Option:
    names = [each for each in (f"-{name[0]}", f"--{name}") if each not in taken]
    return click.Option(
        [*names, f"is_{name}"],
        is_flag=True,
        expose_value=False,
        callback=_setter(wanted),
        help=said,
    )


def _setter(wanted: Loudness) -> Callable[[click.Context, click.Parameter, bool], None]:
    def set_it(ctx: click.Context, _param: click.Parameter, given: bool) -> None:
        if not given:
            return
        if loudness() is not Loudness.USUAL and loudness() is not wanted:
            raise click.UsageError("give -q or -v, not both", ctx)
        is_new = loudness() is not wanted
        ctx.with_resource(told_with(wanted))
        if wanted is Loudness.VERBOSE and is_new:
            from divergraph.cli.log_lines import log_lines

            ctx.with_resource(log_lines())

    return set_it
