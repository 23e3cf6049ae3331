"""The command group: commands are loaded when used, errors become one line and a code."""

from __future__ import annotations

import difflib
import errno
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

import click

from divergraph.cli.say import say, say_usage
from divergraph.jobs.background.own_process import as_job, own_progress
from divergraph.outcomes import BAD_INPUT, TROUBLE, disk_failed, outcome_of_error
from divergraph.version import __version__
from graphstore.errors import DivergraphError


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

_COMMANDS: dict[str, tuple[str, str]] = {
    # command: (module below divergraph.cli, one line for --help)
    "compare": ("make.compare_command", "Compare two dumps and say where the error starts."),
    "analyse": ("make.analyse_command", "Find the root cause in a run compared before."),
    "diff": ("make.diff_command", "Compare two tensors or folders of them, without any graph."),
    "capture": ("make.capture_command", "Run a model here and dump every tensor: the golden side."),
    "detect": ("make.detect_command", "Say what files and folders are, how sure that is, and why."),
    "dumps": ("make.dumps_command", "List the dumps of a folder: times, ranks, models, steps."),
    "import": ("make.import_command", "Read a graph file into the store."),
    "runs": ("ask.listing_commands", "List the runs and imported graphs of the store."),
    "ops": ("ask.listing_commands", "List ops with their state and metrics; --where filters."),
    "origins": ("ask.propagation_commands", "Say where the error of a run starts, and why."),
    "trace": ("ask.propagation_commands", "Follow an error from an op to the outputs."),
    "roles": (
        "ask.propagation_commands",
        "Say which ops make, carry, increase or reduce the error.",
    ),
    "blame": (
        "ask.blame_command",
        "Say which ops made the outputs' error; list those to keep exact.",
    ),
    "compare-runs": ("ask.across_command", "Say what changed between two runs, op by op."),
    "consistency": (
        "make.consistency_command",
        "Check a device dump by itself, or two of one model.",
    ),
    "verify": (
        "make.verify_command",
        "Run each device op on its own dumped inputs: no golden side is needed.",
    ),
    "advise": ("ask.advise_command", "Say what a run shows as a whole, and what to do next."),
    "tensor": ("ask.tensor_command", "Show one tensor of both sides: how it differs, and where."),
    "lineage": ("ask.run_commands", "Show which originals an op was made of, both ways."),
    "between": ("ask.run_commands", "List the ops between a start and an end."),
    "submodel": ("ask.submodel_command", "Cut a part of a model out, with its data."),
    "replay": ("make.replay_command", "Run a part that was cut out again, from its bundle."),
    "minimize": ("ask.minimize_command", "Find the smallest part of a model that still fails."),
    "query": ("ask.query_command", "Ask the store in Cypher, read-only."),
    "report": ("ask.report_command", "Write a run down: CSV, HTML, JUnit XML, Markdown, Parquet."),
    "export": ("ask.export_command", "Write a run or graph as JSON, CSV or GraphML."),
    "convert": ("make.convert_command", "Write dumps as arrays, graphs in other tools' formats."),
    "delete": ("ask.listing_commands", "Remove a run or imported graph from the store."),
    "rename": ("manage.store_commands", "Give a run or imported graph another name."),
    "copy": ("manage.store_commands", "Copy runs and graphs to another store."),
    "backup": ("manage.store_commands", "Write runs and graphs to one portable file."),
    "restore": ("manage.store_commands", "Read what backup wrote into the store."),
    "store": (
        "manage.store_commands",
        "Say what the store holds (info), put it in order (repair).",
    ),
    "tui": ("manage.tui_command", "Browse runs in the terminal."),
    "neo4j": ("manage.neo4j_command", "Run a Neo4j server of your own on this machine."),
    "schema": ("manage.schema_command", "Print the JSON Schema of a command's --json."),
    "doctor": ("manage.doctor_command", "Check the installation and the store."),
    "demo": ("make.demo_command", "Run the main job on data that comes with the package."),
}


class _ReaderGoneError(Exception):
    """Who reads what is printed went away."""


@contextmanager
def _reader_heeded() -> Iterator[None]:
    """Keep a broken pipe from Click, which would exit with 1: that means "diverged" here."""
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error


class _LazyGroup(click.Group):
    """Loads a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"divergraph.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], _COMMANDS)
            if not near:
                raise
            words = f"{error.message} Did you mean {' or '.join(near)}?"
            raise click.UsageError(words, ctx) from error

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        with _reader_heeded():  # --help and --version print here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _reader_heeded():
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 nothing diverged, 1 diverged, 2 bad usage or input, 3 trouble.",
)
@click.version_option(__version__, prog_name="divergraph")
def cli() -> None:
    """Find the op where an accelerator's error starts, and how it spreads."""


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
        say("stopped", err=True)
        return 130
    except DivergraphError as error:
        _fail(_one_line(str(error)))
        return outcome_of_error(error).exit_code
    except OSError as error:
        if not disk_failed(error) and error.errno != errno.EROFS:
            if os.environ.get("DIVERGRAPH_DEBUG"):
                raise
            return _internal(error)
        what = f"{error.filename}: " if error.filename else "cannot write: "
        _fail(f"{what}{error.strerror}")
        return TROUBLE.exit_code
    except Exception as error:
        if os.environ.get("DIVERGRAPH_DEBUG"):
            raise
        return _internal(error)
    return result if isinstance(result, int) else 0


def _internal(error: Exception) -> int:
    kind = type(error).__name__
    _fail(
        f"internal error, please report it: {kind}: {_one_line(str(error))}"
        " (DIVERGRAPH_DEBUG=1 shows where)"
    )
    return TROUBLE.exit_code


def _fail(text: str) -> None:
    say(f"divergraph: {text}", err=True)
    _tell_failed(text)


def _tell_failed(text: str) -> None:
    if (own := own_progress()) is not None:
        own.failed(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
