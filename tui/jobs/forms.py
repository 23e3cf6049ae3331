"""The form of a command, made from the parameters it declares."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphstore.errors import InputError
from tui.jobs.form_table import FORMS, REST, UNSHOWN
from tui.jobs.watched import JobsElsewhere

if TYPE_CHECKING:
    from divergraph.ask.question import Question

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
    """One parameter of *command*, with its text on the form; empty: the default. Paths are those
    of a server if the job is to run ``elsewhere``."""

    command: click.Command
    parameter: click.Parameter
    needed: bool
    elsewhere: JobsElsewhere | None = None

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
        return self.parameter.multiple or self.parameter.nargs != 1

    @cached_property
    def kind(self) -> FormKind:
        """How it is filled in."""
        if isinstance(self.parameter, click.Option) and self.parameter.is_flag:
            return FormKind.FLAG
        if isinstance(self.parameter.type, click.Choice):
            return FormKind.CHOICE
        if isinstance(self.parameter.type, click.Path):
            return FormKind.PATH if self.elsewhere is None else FormKind.TEXT
        return FormKind.RUN if self.name == "run" and not self.option else FormKind.TEXT

    @property
    def choices(self) -> tuple[str, ...]:
        """What can be chosen; empty first where nothing need be."""
        kind = self.parameter.type
        choices = tuple(map(str, kind.choices)) if isinstance(kind, click.Choice) else ()
        return choices if self.default else ("", *choices)

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
        if self._is_path_elsewhere and self.elsewhere is not None and self.elsewhere.roots:
            return f"{self.elsewhere.roots[0]}:PATH"
        metavar = self.parameter.metavar if isinstance(self.parameter, click.Option) else ""
        return metavar or ("" if self.kind is FormKind.TEXT else self.kind.value.upper())

    @property
    def help(self) -> str:
        """What it means."""
        text = self.parameter.help if isinstance(self.parameter, click.Option) else ""
        text = text or self.command.get_short_help_str(200)
        if self._is_path_elsewhere and self.elsewhere is not None:
            text += f" {paths_of(self.elsewhere)}"
        return f"{text} Several, with blanks between." if self.several else text

    def words(self, text: str) -> list[str]:
        """The words of the command line for *text*."""
        if not text.strip():
            return []
        if self.kind is FormKind.FLAG:
            return [self.option]
        if self.option and not self.parameter.multiple:
            return [self.option, *self._values(text)]
        words: list[str] = []
        for value in self._values(text):
            words += [self.option, value] if self.option else [value]
        return words

    def problem(self, text: str) -> str:
        """What Click says against *text*; empty if it takes it."""
        trimmed = text.strip()
        if not trimmed and not self.needed:
            return ""
        if not trimmed:
            return "this is needed"
        if self.kind is FormKind.FLAG:
            return ""
        try:
            values = self._values(text)
            if self._is_path_elsewhere and self.elsewhere is not None:
                wrong = (value for value in values if not is_path_of(self.elsewhere, value))
                return paths_of(self.elsewhere) if next(wrong, None) is not None else ""
            value = tuple(values) if self.several else values[0]
            self.parameter.process_value(click.Context(self.command), value)
        except click.ClickException as error:
            return error.message or error.format_message()
        except ValueError as error:  # a quotation mark that is not closed
            return str(error)
        return ""

    @property
    def _is_path_elsewhere(self) -> bool:
        return self.elsewhere is not None and isinstance(self.parameter.type, click.Path)

    def _values(self, text: str) -> list[str]:
        values = shlex.split(text) if self.several else [text.strip()]
        if self.kind is not FormKind.PATH:
            return values
        return [
            str(Path(value).expanduser()) if value.startswith("~") else value for value in values
        ]


@dataclass(frozen=True)
class JobForm:
    """The form of the command *name*, which may be told its store."""

    name: str
    command: click.Command
    groups: Mapping[str, Sequence[FormField]]
    takes_store: bool
    elsewhere: bool = False

    @property
    def fields(self) -> list[FormField]:
        """All fields in order."""
        return [field for group in self.groups.values() for field in group]

    def words(self, texts: Mapping[str, str], store: str = "") -> list[str]:
        """The command line behind the program's name. What has no option stands first."""
        fields = sorted(self.fields, key=lambda field: bool(field.option))
        command_words = [self.name]
        for field in fields:
            try:
                command_words += field.words(texts.get(field.name, ""))
            except ValueError:  # not closed yet; the field says so
                continue
        return [*command_words, "--store", store] if store and self.takes_store else command_words

    def problems(self, texts: Mapping[str, str]) -> dict[str, str]:
        """By name, what is wrong with a field."""
        problems = {field.name: field.problem(texts.get(field.name, "")) for field in self.fields}
        return {name: problem for name, problem in problems.items() if problem}


def form_of(name: str, elsewhere: JobsElsewhere | None = None) -> JobForm:
    """The form of a command of the table, for a job here or on a server."""
    plan, command = FORMS[name], _command(name)
    open_ = {param.name or "": param for param in command.params}
    takes_store = "store" in open_ and elsewhere is None
    if elsewhere is not None:
        options = elsewhere.takes.get(name, ())
        open_ = {key: param for key, param in open_.items() if public_name(param) in options}
    for hidden in (*plan.hidden, *UNSHOWN):
        open_.pop(hidden, None)
    groups: dict[str, Sequence[FormField]] = {}
    for heading, names in plan.groups.items():
        if params := [open_.pop(name) for name in names if name in open_]:
            groups[heading] = _fields(command, params, plan.needed, elsewhere)
    if open_:
        groups[REST] = _fields(command, open_.values(), plan.needed, elsewhere)
    return JobForm(name, command, groups, takes_store, elsewhere is not None)


def question_form(kind: type[Question[Any]]) -> JobForm:
    """The form of a question that is declared, with its parameters only."""
    from divergraph.cli.question_command import parameters_of

    command = _command(kind.name)
    fields = _fields(command, parameters_of(kind).values(), (), None)
    return JobForm(kind.name, command, {"The question": fields} if fields else {}, False)


def form_titles(elsewhere: JobsElsewhere | None = None) -> dict[str, str]:
    """The commands of the table, with what each does; those that a server runs."""
    names = [name for name in FORMS if elsewhere is None or name in elsewhere.takes]
    return {name: _command(name).get_short_help_str(200) for name in names}


def is_path_of(elsewhere: JobsElsewhere, path: str) -> bool:
    """Whether a server may look there: it says itself whether there is such a file."""
    root, sign, _ = path.partition(":")
    return elsewhere.anywhere or bool(sign and root in (*elsewhere.roots, "uploads"))


def paths_of(elsewhere: JobsElsewhere) -> str:
    """How files of a server are named."""
    if elsewhere.anywhere:
        return "A path on the server's machine."
    starts = [f"{root}:" for root in (*elsewhere.roots, "uploads")]
    return f"A path of the server begins with {' or '.join(starts)}."


def options_of(words: Sequence[str], elsewhere: JobsElsewhere) -> dict[str, object]:
    """The options of the command line *words* as a server is asked for them.

    Raises:
        InputError: it does not run this command.
    """
    if words[0] not in elsewhere.takes:
        hint = f"it runs {', '.join(elsewhere.takes)}"
        raise InputError(f"the server does not run {words[0]}", hint=hint)
    command = _command(words[0])
    parser = command.make_parser(click.Context(command, resilient_parsing=True))
    options, _, _ = parser.parse_args(list(words[1:]))
    params = {param.name: param for param in command.params if param.name != "store"}
    return {
        public_name(param): [*value] if isinstance(value, tuple) else value
        for name, param in params.items()
        if (value := options.get(name)) not in (None, (), [])
    }


def public_name(param: click.Parameter) -> str:
    """What a server calls *param*: as on the command line, without dashes in front."""
    longest = max(param.opts, key=len)
    return longest.lstrip("-") if isinstance(param, click.Option) else str(param.name)


def _fields(
    command: click.Command,
    params: Iterable[click.Parameter],
    needed: Sequence[str],
    elsewhere: JobsElsewhere | None,
) -> list[FormField]:
    return [
        FormField(command, param, param.required or param.name in needed, elsewhere)
        for param in params
    ]


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
    options, _, _ = parser.parse_args(list(words[1:]))
    texts: dict[str, str] = {}
    for field in form.fields:
        value = options.get(field.name)
        if isinstance(value, (list, tuple)):
            value = shlex.join(map(str, value))
        if field.kind is FormKind.FLAG:
            value = YES if value else ""
        if isinstance(value, str) and value:
            texts[field.name] = value
    return texts
