"""Which commands there are, under the headings of ``divergraph --help``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from graphstore.errors import UnknownNameError

if TYPE_CHECKING:
    import click

    from divergraph.ask.question import Question


class ListedCommand(NamedTuple):
    """A command: its module below ``divergraph``, loaded when it is used, and what it does."""

    module: str
    help: str


SECTIONS: dict[str, dict[str, ListedCommand]] = {
    "Begin": {
        "demo": ListedCommand(
            "cli.make.demo_command", "Run the main job on data that comes with the package."
        ),
        "tui": ListedCommand("cli.manage.tui_command", "Browse runs in the terminal."),
        "serve": ListedCommand(
            "server.serve_command", "Answer a team: one address, the same answers over HTTP."
        ),
        "mcp": ListedCommand(
            "server.agents.mcp_command", "Answer an agent: tools of the Model Context Protocol."
        ),
        "compare": ListedCommand(
            "cli.make.compare_command", "Compare two dumps and say where the error starts."
        ),
        "watch": ListedCommand(
            "cli.make.watch_command", "Compare what a running job dumps, as it comes."
        ),
        "analyse": ListedCommand(
            "cli.make.analyse_command", "Find the root cause in a run compared before."
        ),
    },
    "Files and models": {
        "detect": ListedCommand(
            "cli.make.detect_command", "Say what files and folders are, how sure that is, and why."
        ),
        "dumps": ListedCommand(
            "cli.make.dumps_command", "List the dumps of a folder: times, ranks, models, steps."
        ),
        "open": ListedCommand(
            "cli.make.open_command", "Open the result table of another tool as a run."
        ),
        "import": ListedCommand("cli.make.import_command", "Read a graph file into the store."),
        "capture": ListedCommand(
            "cli.make.capture_command", "Run a model here and dump every tensor: the golden side."
        ),
        "diff": ListedCommand(
            "cli.make.diff_command", "Compare two tensors or folders of them, without any graph."
        ),
        "convert": ListedCommand(
            "cli.make.convert_command", "Write dumps as arrays, graphs in other tools' formats."
        ),
        "consistency": ListedCommand(
            "cli.make.consistency_command", "Check a device dump by itself, or two of one model."
        ),
        "verify": ListedCommand(
            "cli.make.verify_command",
            "Run each device op on its own dumped inputs: no golden side is needed.",
        ),
    },
    "Training jobs": {
        "tf-dump": ListedCommand(
            "cli.precision_tool.job_commands", "Run a script and dump the golden side."
        ),
        "npu-dump": ListedCommand(
            "cli.precision_tool.job_commands", "Run a script on the device, dump and compare."
        ),
        "npu-overflow": ListedCommand(
            "cli.precision_tool.job_commands", "Run a script on the device and find overflows."
        ),
        "dump-config": ListedCommand(
            "cli.manage.dump_config_command", "Write what makes a device dump: acl.json, Python."
        ),
        "logs": ListedCommand(
            "cli.ask.logs_command", "Say what a device's logs hold: overflows and errors by op."
        ),
        "precision-tool": ListedCommand(
            "cli.precision_tool.commands", "Ask as in precision_tool: ac, ls, ni, pt, cp, vc, …"
        ),
        "shell": ListedCommand(
            "cli.precision_tool.shell_command", "All commands at one prompt, also precision_tool's."
        ),
    },
    "Ask a run": {
        "runs": ListedCommand(
            "cli.ask.listing_commands", "List the runs and imported graphs of the store."
        ),
        "ops": ListedCommand(
            "cli.ask.listing_commands", "List ops with their state and metrics; --where filters."
        ),
        "op": ListedCommand(
            "cli.ask.op_command", "Show everything about one op, and the ops around it."
        ),
        "origins": ListedCommand(
            "cli.ask.propagation_commands", "Say where the error of a run starts, and why."
        ),
        "trace": ListedCommand(
            "cli.ask.propagation_commands", "Follow an error from an op to the outputs."
        ),
        "blame": ListedCommand(
            "cli.ask.blame_command",
            "Say which ops made the outputs' error; list those to keep exact.",
        ),
        "advise": ListedCommand(
            "cli.ask.advise_command", "Say what a run shows as a whole, and what to do next."
        ),
        "tensor": ListedCommand(
            "cli.ask.tensor_command", "Show one tensor of both sides: how it differs, and where."
        ),
        "fusion": ListedCommand(
            "cli.ask.fusion_command",
            "Name the fusion pass behind an op: does it make the error?",
        ),
        "lineage": ListedCommand(
            "cli.ask.run_commands", "Show which originals an op was made of, both ways."
        ),
        "gate": ListedCommand(
            "cli.ask.gate_command", "Say whether a run may pass: no op got worse."
        ),
        "query": ListedCommand("cli.ask.query_command", "Ask the store in Cypher, read-only."),
    },
    "Parts and reports": {
        "submodel": ListedCommand(
            "cli.ask.submodel_command", "Cut a part of a model out, with its data."
        ),
        "minimize": ListedCommand(
            "cli.ask.minimize_command", "Find the smallest part of a model that still fails."
        ),
        "replay": ListedCommand(
            "cli.make.replay_command", "Run a part that was cut out again, from its bundle."
        ),
        "report": ListedCommand(
            "cli.ask.report_command",
            "Write a run down: CSV, HTML, JUnit, Markdown, Parquet, SARIF.",
        ),
        "export": ListedCommand(
            "cli.ask.export_command", "Write a run or graph as JSON, CSV or GraphML."
        ),
    },
    "The store": {
        "note": ListedCommand(
            "cli.manage.memory_commands", "Write down what is known of an op, for all its runs."
        ),
        "baseline": ListedCommand(
            "cli.manage.memory_commands", "Say which run of a model others are held against."
        ),
        "delete": ListedCommand(
            "cli.ask.listing_commands", "Remove a run or imported graph from the store."
        ),
        "rename": ListedCommand(
            "cli.manage.store_commands", "Give a run or imported graph another name."
        ),
        "copy": ListedCommand(
            "cli.manage.store_commands", "Copy runs and graphs to another store."
        ),
        "backup": ListedCommand(
            "cli.manage.store_commands", "Write runs and graphs to one portable file."
        ),
        "restore": ListedCommand(
            "cli.manage.store_commands", "Read what backup wrote into the store."
        ),
        "store": ListedCommand(
            "cli.manage.store_commands",
            "Say what the store holds (info), put it in order (repair).",
        ),
        "neo4j": ListedCommand(
            "cli.manage.neo4j_command", "Run a Neo4j server of your own on this machine."
        ),
    },
    "The installation": {
        "doctor": ListedCommand(
            "cli.manage.doctor_command", "Check the installation and the store."
        ),
        "completion": ListedCommand(
            "cli.manage.completion_command", "Print what makes a shell complete our command lines."
        ),
        "schema": ListedCommand(
            "cli.manage.schema_command", "Print the JSON Schema of a command's --json."
        ),
    },
}

COMMANDS = {name: command for listed in SECTIONS.values() for name, command in listed.items()}
"""Those that are written by hand, by name; the questions have commands, too."""


def _question_commands() -> dict[str, type[Question[Any]]]:
    """The questions that have commands of their own; of other packages none with a name of ours."""
    from divergraph.ask.registry import own_names, own_question, plugged_questions

    declared = {name: own_question(name) for name in own_names() if name not in COMMANDS}
    return {
        name: kind
        for name, kind in {**declared, **plugged_questions()}.items()
        if name not in COMMANDS and not kind.command
    }


def _question(name: str) -> type[Question[Any]] | None:
    """The question *name*, of all the only one that is loaded; None if there is none."""
    from divergraph.ask.registry import own_names, own_question, plugged_questions

    return own_question(name) if name in own_names() else plugged_questions().get(name)


def command_names() -> list[str]:
    """The names of all commands."""
    return [*COMMANDS, *_question_commands()]


@cache
def command_of(name: str) -> click.Command:
    """The command *name*; its module is loaded now.

    Raises:
        UnknownNameError: there is none.
    """
    if name in COMMANDS:
        module = import_module(f"divergraph.{COMMANDS[name].module}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command
    from divergraph.cli.question_command import question_command

    kind = _question(name)
    if kind is None or kind.command:
        raise UnknownNameError("command", name)
    return question_command(kind)


def helped_sections() -> dict[str, dict[str, str]]:
    """What each command does, under its heading; questions come last of those about runs."""
    from divergraph.ask.question import help_of

    sections = {
        heading: {name: command.help for name, command in listed.items()}
        for heading, listed in SECTIONS.items()
    }
    sections["Ask a run"] |= {name: help_of(kind) for name, kind in _question_commands().items()}
    return sections


OTHER_TOOLS: dict[str, str] = {
    "ait": "msit",
    "mscmp_advisor.py": "msaccucmp",
    "mindstudio": "mindstudio",
    "msaccucmp": "msaccucmp",
    "msaccucmp.py": "msaccucmp",
    "msit": "msit",
    "msprobe": "msprobe",
    "polygraphy": "polygraphy",
    "tfdbg": "tfdbg",
    **dict.fromkeys(("check", "debug", "inspect", "surgeon"), "polygraphy"),
    **dict.fromkeys(("acc_check", "graph_visualize", "merge_result", "overflow_check"), "msprobe"),
    **dict.fromkeys(("file_compare", "overflow"), "msaccucmp"),
}
"""Tools that people know, and first words of theirs, with the page that says what they are here."""
