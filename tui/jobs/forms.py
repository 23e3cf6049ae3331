"""The form of a command, made from the parameters it declares."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import click

from tui.jobs.form_table import FORMS, REST, UNSHOWN

YES = "yes"
"""The text of a flag that is set."""


class FormKind(StrEnum):
    """How a field is filled in."""

    FLAG = "flag"
    CHOICE = "choice"
    PATH = "path"
    RUN = "run"
    TEXT = "text"


@dataclass(frozen=True)
class FormField:
    """One parameter of *command*, with its text on the form; empty: the default."""

    command: click.Command
    parameter: click.Parameter
    needed: bool

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.parameter.name or ""

    @property
    def option(self) -> str:
        """How it is called on the command line; empty for what has its place there."""
        is_option = isinstance(self.parameter, click.Option)
        return max(self.parameter.opts, key=len) if is_option else ""

    @property
    def label(self) -> str:
        """What stands beside the field."""
        return self.option.lstrip("-") or self.name.replace("_", " ")

    @property
    def several(self) -> bool:
        """Whether it takes several values, with blanks between them."""
        return self.parameter.multiple or self.parameter.nargs == -1

    @cached_property
    def kind(self) -> FormKind:
        """How it is filled in."""
        if isinstance(self.parameter, click.Option) and self.parameter.is_flag:
            return FormKind.FLAG
        if isinstance(self.parameter.type, click.Choice):
            return FormKind.CHOICE
        if isinstance(self.parameter.type, click.Path):
            return FormKind.PATH
        return FormKind.RUN if self.name == "run" and not self.option else FormKind.TEXT

    @property
    def choices(self) -> tuple[str, ...]:
        """What can be chosen; empty first where nothing need be."""
        kind = self.parameter.type
        known = tuple(map(str, kind.choices)) if isinstance(kind, click.Choice) else ()
        return known if self.default else ("", *known)

    @property
    def default(self) -> str:
        """What holds if nothing is said, as far as the command says so."""
        if not isinstance(self.parameter, click.Option) or not self.parameter.show_default:
            return ""
        return str(self.parameter.default)

    @property
    def example(self) -> str:
        """What stands in an empty field."""
        if self.default:
            return self.default
        shown = self.parameter.metavar if isinstance(self.parameter, click.Option) else ""
        return shown or ("" if self.kind is FormKind.TEXT else self.kind.value.upper())

    @property
    def help(self) -> str:
        """What it means."""
        said = self.parameter.help if isinstance(self.parameter, click.Option) else ""
        said = said or self.command.get_short_help_str(200)
        return f"{said} Several, with blanks between." if self.several else said

    def words(self, text: str) -> list[str]:
        """The words of the command line for *text*."""
        if not text.strip():
            return []
        if self.kind is FormKind.FLAG:
            return [self.option]
        found: list[str] = []
        for value in self._values(text):
            found += [self.option, value] if self.option else [value]
        return found

    def problem(self, text: str) -> str:
        """What Click says against *text*; empty if it takes it."""
        given = text.strip()
        if not given and not self.needed:
            return ""
        if not given:
            return "this is needed"
        if self.kind is FormKind.FLAG:
            return ""
        try:
            values = self._values(text)
            value = tuple(values) if self.several else values[0]
            self.parameter.process_value(click.Context(self.command), value)
        except click.ClickException as error:
            return error.message or error.format_message()
        except ValueError as error:  # a quotation mark that is not closed
            return str(error)
        return ""

    def _values(self, text: str) -> list[str]:
        values = shlex.split(text) if self.several else [text.strip()]
        if self.kind is not FormKind.PATH:
            return values
        return [str(Path(each).expanduser()) if each.startswith("~") else each for each in values]


@dataclass(frozen=True)
class JobForm:
    """The form of the command *name*, which may be told its store."""

    name: str
    command: click.Command
    groups: Mapping[str, Sequence[FormField]]
    takes_store: bool

    @property
    def fields(self) -> list[FormField]:
        """All fields in order."""
        return [field for group in self.groups.values() for field in group]

    def words(self, texts: Mapping[str, str], store: str = "") -> list[str]:
        """The command line behind the program's name. What has no option stands first."""
        fields = sorted(self.fields, key=lambda field: bool(field.option))
        found = [self.name]
        for field in fields:
            try:
                found += field.words(texts.get(field.name, ""))
            except ValueError:  # not closed yet; the field says so
                continue
        return [*found, "--store", store] if store and self.takes_store else found

    def problems(self, texts: Mapping[str, str]) -> dict[str, str]:
        """By name, what is wrong with a field."""
        found = {field.name: field.problem(texts.get(field.name, "")) for field in self.fields}
        return {name: problem for name, problem in found.items() if problem}


def form_of(name: str) -> JobForm:
    """The form of a command of the table."""
    plan, command = FORMS[name], _command(name)
    open_ = {param.name or "": param for param in command.params}
    takes_store = "store" in open_
    for each in (*plan.hidden, *UNSHOWN):
        open_.pop(each, None)
    groups: dict[str, Sequence[FormField]] = {}
    for heading, names in plan.groups.items():
        params = [open_.pop(each) for each in names]
        groups[heading] = _fields(command, params, plan.needed)
    if open_:
        groups[REST] = _fields(command, open_.values(), plan.needed)
    return JobForm(name, command, groups, takes_store)


def form_titles() -> dict[str, str]:
    """The commands of the table, with what each does."""
    return {name: _command(name).get_short_help_str(200) for name in FORMS}


def _fields(
    command: click.Command, params: Iterable[click.Parameter], needed: Sequence[str]
) -> list[FormField]:
    return [FormField(command, each, each.required or each.name in needed) for each in params]


def _command(name: str) -> click.Command:
    from divergraph.cli.main import cli

    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def texts_of(words: Sequence[str]) -> dict[str, str]:
    """What has to stand in the form for the command line *words*; what has no field is left out.

    Raises:
        KeyError: it is no command of the table.
    """
    form = form_of(words[0])
    parser = form.command.make_parser(click.Context(form.command, resilient_parsing=True))
    given, _, _ = parser.parse_args(list(words[1:]))
    found: dict[str, str] = {}
    for field in form.fields:
        value = given.get(field.name)
        if isinstance(value, (list, tuple)):
            value = shlex.join(map(str, value))
        if field.kind is FormKind.FLAG:
            value = YES if value else ""
        if isinstance(value, str) and value:
            found[field.name] = value
    return found
