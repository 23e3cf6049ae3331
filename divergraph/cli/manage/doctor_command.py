"""``divergraph doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from divergraph.ask.doctor import InstallationCheck, checks
from divergraph.cli.command_table import command_names
from divergraph.cli.configured import check_commands, settings
from divergraph.cli.options import STORE_VARIABLE, common, print_json
from divergraph.cli.say import say
from divergraph.files.config_file import ConfigFile, read_config
from divergraph.present.declared_answer import answer_json
from graphstore.errors import ConfigError
from graphstore.open_store import DEFAULT_STORE


@click.command("doctor")
@common
@click.pass_context
def doctor_command(ctx: click.Context, store: str | None, as_json: bool) -> int:
    """Check the installation, its optional parts, the store, and say where settings come from.

    Exit code 3 if a check fails.
    """
    told = list(_settings(ctx.find_root().command, store))
    results = [*checks(_store(store)[0]), *told]
    fine = all(check.fine or check.optional for check in results)
    if as_json:
        print_json({"fine": fine, "checks": [answer_json(check) for check in results]})
    else:
        for check in results:
            mark = "ok  " if check.fine else "--  " if check.optional else "FAIL"
            say(f"{mark} {check.name:22} {check.detail}")
    return 0 if fine else 3


def _store(option_value: str | None) -> tuple[str, str]:
    """The store that is used, and who says so; a file that cannot be read says nothing."""
    if option_value:
        return option_value, "--store"
    if named := os.environ.get(STORE_VARIABLE):
        return named, f"${STORE_VARIABLE}"
    try:
        config = read_config()
        if config.store:
            return config.store, config.place("store")
    except ConfigError:
        pass  # told as a check of its own
    return DEFAULT_STORE, "built in"


def _settings(commands: click.Command, option_value: str | None) -> Iterator[InstallationCheck]:
    """Where each setting comes from: option, environment, the user's file, the program."""
    store, place = _store(option_value)
    yield InstallationCheck("setting: store", True, f"{store} ({place})")
    variables = sorted(name for name in os.environ if name.startswith("DIVERGRAPH_"))
    if variables:
        yield InstallationCheck("environment sets", True, " ".join(variables))
    try:
        config = read_config()
        check_commands(config, command_names())
        there = "" if config.content else ": nothing is set there"
        yield InstallationCheck("configuration", True, f"{config.path or 'none'}{there}")
        yield from _of_commands(config, commands)
    except ConfigError as error:
        yield InstallationCheck("configuration", False, str(error))


def _of_commands(config: ConfigFile, commands: click.Command) -> Iterator[InstallationCheck]:
    assert isinstance(commands, click.Group)
    for name in config.content:
        command = commands.get_command(click.Context(commands), name)
        for setting in settings(config, name, command) if command is not None else ():
            what = f"{' '.join(setting.command)} --{setting.key}"
            yield InstallationCheck(what, True, f"{setting.value} ({setting.place})")
