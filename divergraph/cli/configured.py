"""Defaults of options from the user's configuration file; the environment and options go before.

``store`` is for all commands; a table is a command, its keys are long names of options:

    store = "/data/runs"
    [compare]
    precision = "fp16"
    [note.list]
    limit = 20
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import click

from divergraph.files.config_file import ConfigFile

_STORE = "store"


class Setting(NamedTuple):
    """An option of a command that the file sets, and in which line."""

    command: tuple[str, ...]
    key: str
    param: click.Parameter
    value: Any
    place: str


def check_commands(config: ConfigFile, commands: Collection[str]) -> None:
    """Return if all in the file is ``store`` or one of *commands*.

    Raises:
        ConfigError: something is not.
    """
    for key, value in config.content.items():
        if key in commands and isinstance(value, Mapping):
            continue
        if key != _STORE:
            # a table's header is found by its name alone
            table = (key,) if isinstance(value, Mapping) else ()
            what = f"{key!r} is neither {_STORE!r} nor a command"
            raise config.error(
                "" if table else key, what, _key_hint(key, [_STORE, *commands]), table
            )


def settings(config: ConfigFile, name: str, command: click.Command) -> Iterator[Setting]:
    """What the file sets for *command*, and for those below it.

    Raises:
        ConfigError: the command has no such option, or it takes no such value.
    """
    table = config.content.get(name)
    if isinstance(table, Mapping):  # `store` is a key, too
        yield from _settings(config, table, command, (name,))


def defaults(all_settings: Iterator[Setting]) -> dict[str, Any]:
    """*settings* as Click's ``default_map`` of the commands, by their names."""
    by_command: dict[str, Any] = {}
    for setting in all_settings:
        table = by_command
        for name in setting.command:
            table = table.setdefault(name, {})
        table[str(setting.param.name)] = setting.value
    return by_command


def _settings(
    config: ConfigFile, table: Mapping[str, Any], command: click.Command, names: tuple[str, ...]
) -> Iterator[Setting]:
    below = command.commands if isinstance(command, click.Group) else {}
    options = {
        option.removeprefix("--"): param
        for param in command.params
        if isinstance(param, click.Option) and param.name not in (_STORE, "is_quiet", "is_verbose")
        for option in param.opts
        if option.startswith("--")
    }
    for key, value in table.items():
        if key in below and isinstance(value, Mapping):
            yield from _settings(config, value, below[key], (*names, key))
        elif key in options:
            place = config.place(key, names)
            try:
                options[key].type_cast_value(click.Context(command), value)
            except click.UsageError as error:
                raise config.error(key, error.format_message(), table=names) from error
            yield Setting(names, key, options[key], value, place)
        else:
            what = f"{' '.join(names)} has no option --{key} that can be set here"
            raise config.error(key, what, _key_hint(key, [*options, *below]), names)


def _key_hint(key: str, keys: Collection[str]) -> str:
    matches = difflib.get_close_matches(key, keys, 1)
    return f"did you mean {matches[0]}?" if matches else f"one of {', '.join(sorted(keys))}"
