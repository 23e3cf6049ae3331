"""Which commands may be asked for as jobs, and how a request becomes a command line.

Only options that are named here are taken: others write files, name programs to run, or are the
server's own business.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from divergraph.api.capture import is_seed
from divergraph.ask.registry import all_questions
from divergraph.cli.command_table import command_of
from divergraph.jobs.background.job_files import PART
from divergraph.server.parameters import public_name
from graphstore.errors import InputError


@dataclass(frozen=True, slots=True)
class JobCommand:
    """The parameters of a command that a request may give, under the names its function has:
    ``reads`` are paths below a root, ``named`` ones stand behind ``NAME=``; ``takes`` plain values.
    ``about`` are the names of runs or graphs whose files are read; ``own`` are words of our own."""

    reads: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


_RUN_HERE = ("device", "device_dump", "golden_dump", "weights")
"""What a graph, of which no run is kept, is run on."""
_JUDGED = ("precision", "suspect", "guilty", "memory")

JOB_COMMANDS: Mapping[str, JobCommand] = {
    "import": JobCommand(("path", "weights"), ("name", "replace_it", "phase")),
    "compare": JobCommand(
        (
            *("golden", "golden_dump", "device", "device_dump", "device_graph", "weights"),
            *("thresholds", "match", "undumped_outputs", "undumped_graph"),
        ),
        (
            *("name", "replace_it", "method", "rank", "step", "ranks", "steps", "model_id", "time"),
            *_JUDGED,
        ),
    ),
    "watch": JobCommand(
        ("folder", "golden", "golden_dump", "device", "thresholds", "match"),
        ("name", "quiet", "idle", "until_guilty", "method", *_JUDGED),
    ),
    "analyse": JobCommand(("thresholds",), ("run", *_JUDGED), about=("run",)),
    "minimize": JobCommand(
        _RUN_HERE,
        ("run", "starts", "ends", "budget", "seconds", "timeout", "flaky", "factor", "seed"),
        ("inputs",),
        ("run",),
    ),
    "submodel": JobCommand(
        _RUN_HERE,
        ("run", "starts", "ends", "form", "check", "whole", "all_outputs", "smallest", "seed"),
        ("inputs",),
        ("run",),
        (f"--output={PART}",),  # in the folder of the job, where it is fetched
    ),
    "diff": JobCommand(("device", "golden", "thresholds"), ("top", "tensor", "dtype", "shape")),
    "blame": JobCommand(
        (), ("run", "others", "top", "outputs", "exact", "memory"), about=("run", "others")
    ),
}
_YET_TO_COME = ("folder",)
"""What is watched may be made later."""
REPLACE = "replace_it"
WRITING = frozenset(name for name, job_command in JOB_COMMANDS.items() if job_command.own)
"""Commands that write files into the folder they run in."""

ANSWERED_BY_JOBS = frozenset(JOB_COMMANDS.keys() & all_questions().keys() - WRITING)
"""Questions whose answer is what a job of their name found last."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A command with its words, behind the program's name; the names of ``runs`` it is about, and
    whether it ``replaces`` what has a name already."""

    command: str
    words: tuple[str, ...]
    runs: tuple[str, ...]
    replaces: bool


def options_taken() -> dict[str, list[str]]:
    """The options a request may give, by their public names, for each command."""
    return {
        name: [
            public_name(param)
            for param in command_of(name).params
            if param.name in _parameter_names(job_command)
        ]
        for name, job_command in JOB_COMMANDS.items()
    }


def _parameter_names(job_command: JobCommand) -> tuple[str, ...]:
    return (*job_command.reads, *job_command.takes, *job_command.named)


def request_of(
    command: Any, options: Mapping[str, Any], place: Callable[[str], Path], store: str
) -> JobRequest:
    """What is asked for: *options* by their public names, as the command line has them; *place*
    says which file a path means.

    Raises:
        InputError: no such command or option, or a value its command does not take.
        HTTPException: a path may not be read.
    """
    job_command = JOB_COMMANDS.get(command) if isinstance(command, str) else None
    if job_command is None:
        raise InputError("no job does that", where="command", hint=", ".join(JOB_COMMANDS))
    params = {param.name: param for param in command_of(command).params}
    allowed = {public_name(params[name]): name for name in _parameter_names(job_command)}
    for name in options:
        if name not in allowed:
            hint = f"{command} has {', '.join(sorted(allowed))}"
            raise InputError("there is no such option for a job", where=name, hint=hint)
    allowed_texts = {
        allowed[name]: _texts(name, value, flag=_is_flag(params[allowed[name]]))
        for name, value in options.items()
    }
    for name in allowed_texts.keys() & set(job_command.reads):
        paths = [place(text) for text in allowed_texts[name]]
        for path, text in zip(paths, allowed_texts[name], strict=True):
            if name not in _YET_TO_COME and not _is_there(path):
                where = f"{public_name(params[name])}: {text}"
                raise InputError("there is no such file or folder", where=where)
        allowed_texts[name] = [str(path) for path in paths]
    for name in allowed_texts.keys() & set(job_command.named):
        allowed_texts[name] = [_placed(text, place) for text in allowed_texts[name]]
    named: list[str] = []
    placed: list[str] = []
    for name in filter(allowed_texts.__contains__, params):  # arguments in their order
        texts = allowed_texts[name]
        (placed if isinstance(params[name], click.Argument) else named).extend(
            _words(params[name], texts)
        )
    words = (command, "--json", *job_command.own, *named, "--store", store, "--", *placed)
    _check(command, words)
    runs = tuple(text for name in job_command.about for text in allowed_texts.get(name, ()))
    return JobRequest(command, words, runs, bool(allowed_texts.get(REPLACE)))


def paths_read(command: str, words: Sequence[str]) -> list[Path]:
    """The files and folders that such a command line reads."""
    job_command = JOB_COMMANDS[command]
    params = command_of(command).make_context(command, list(words[1:])).params
    paths = []
    for name in (*job_command.reads, *job_command.named):
        value = params.get(name)
        values = value if isinstance(value, list | tuple) else () if value is None else (value,)
        texts = (
            str(one).rpartition("=")[2] if name in job_command.named else str(one) for one in values
        )
        paths += [Path(text) for text in texts if name in job_command.reads or not is_seed(text)]
    return paths


def _is_there(path: Path) -> bool:
    """Whether there is such a file or folder, or a checkpoint whose files begin like that."""
    return path.exists() or any(path.parent.glob(f"{glob.escape(path.name)}.*"))


def _placed(text: str, place: Callable[[str], Path]) -> str:
    """``NAME=PATH`` with the file that is meant; a seed is none."""
    name, sign, file = text.rpartition("=")
    return text if is_seed(file) else f"{name}{sign}{place(file)}"


def _is_flag(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.is_flag


def _texts(name: str, value: object, *, flag: bool) -> list[str]:
    """The words of one option; of a flag one if it is set."""
    if flag:
        if not isinstance(value, bool):
            raise InputError("true or false is needed", where=name)
        return ["true"] if value else []
    if (
        isinstance(value, list)
        and value
        and not any(isinstance(element, list) for element in value)
    ):
        return [text for element in value for text in _texts(name, element, flag=False)]
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    if plain and "\0" not in str(value):  # no word of a command line
        return [str(value)]
    raise InputError("a text, a number, or a list of those is needed", where=name)


def _words(param: click.Parameter, texts: Sequence[str]) -> Iterator[str]:
    if isinstance(param, click.Argument):
        yield from texts
    elif _is_flag(param):
        yield from [max(param.opts, key=len)] * min(1, len(texts))
    else:
        # one word: a value that begins with a dash is still no option
        yield from (f"{max(param.opts, key=len)}={text}" for text in texts)


def _check(command: str, words: Sequence[str]) -> None:
    """Return if the command takes these words.

    Raises:
        InputError: it does not.
    """
    try:
        command_of(command).make_context(command, list(words[1:]))
    except click.UsageError as error:
        raise InputError(error.format_message(), where=command) from error
