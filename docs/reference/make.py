"""Writes the reference pages that follow from the program: what they say is said there.

    python docs/reference/make.py

A test fails where a page is not what this would write.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path

import click

from divergraph.ask.question import help_of, is_about_run
from divergraph.ask.registry import own_names, own_question
from divergraph.cli.command_table import COMMANDS, helped_sections
from divergraph.cli.loudness import is_loudness
from divergraph.cli.main import cli
from divergraph.present.schema import answers, commands, fields_of
from divergraph.server.route_table import question_routes
from divergraph.text.words import REASON_WORDS
from graphstore import model
from graphstore.cypher.queries import Dialect, load, own_queries
from graphstore.filter import FIELDS
from graphstore.schema.tables import NODES, RELS, Column
from tui.keys import markdown as keys_page

FOLDER = Path(__file__).resolve().parent
WIDTH = 100


_OF_ALL = (
    "Every command also takes `-h`, `-q` (the answer and errors only, no `note:`) and `-v` (what",
    "takes how long, on standard error: records of the logger `divergraph.stages`). `-o` is always",
    "the file or folder to write. Exit codes: 0 nothing diverged, 1 diverged, 2 bad usage or",
    "input, 3 trouble on this machine, 130 stopped.",
)


def commands_page() -> str:
    """Every command with its help, as ``--help`` prints it."""
    lines = ["# Commands", "", *_OF_ALL, ""]
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for words, each in _with_parts(name, command):
            lines += [f"## {words}", "", *_command(words, each)]
    return "\n".join(lines)


def _command(words: str, command: click.Command) -> Iterator[str]:
    """Not as ``--help`` lays it out: that changes with click's versions."""
    own = [each for each in command.params if not is_loudness(each)]
    options = [each for each in own if isinstance(each, click.Option)]
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    given = "".join(f" {each.name.upper()}{'…' * (each.nargs < 0)}" for each in arguments)
    yield f"    divergraph {words}{' [OPTIONS]' if options else ''}{given}"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        marked = paragraph.startswith("\b\n")  # lines that stay as they are
        yield f"```text\n{paragraph[2:]}\n```" if marked else paragraph
        yield ""
    if options:
        yield "| option | |"
        yield "|---|---|"
    for option in options:
        yield f"| {_names(option)} | {_said(option)} |"
    yield ""


def _names(option: click.Option) -> str:
    value = option.metavar or _choices(option) or option.type.name.upper()
    shown = "" if option.is_flag else f" {value}"
    return f"`{', '.join(option.opts)}{shown}`".replace("|", "\\|")


def _choices(option: click.Option) -> str:
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return "|".join(str(choice) for choice in choices)


def _said(option: click.Option) -> str:
    default = f" Default: {option.default}." if option.show_default else ""
    needed = " Required." if option.required else ""
    return f"{option.help or ''}{needed}{default}".replace("|", "\\|").replace("*", "\\*")


def _with_parts(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner, part in command.commands.items():
            yield from _with_parts(f"{name} {inner}", part)


def filters_page() -> str:
    """The fields a filter knows."""
    lines = [
        "# Filters",
        "",
        "`--where`, `run.ops(where)` and `/` in the terminal UI take the same language:",
        "`cos<0.99 type:MatMul* !state:clean`. A blank means *and*, `|` inside a value *or*, `!`",
        "*not*; `:` fits a text or choice (`*` stands for any text), `~` a regular expression, and",
        "`=`, `!=`, `<`, `<=`, `>`, `>=` compare numbers. A bare word is part of the op's name",
        "or of an original's.",
        "Case does not matter.",
        "",
        "| field | also | takes | is |",
        "|---|---|---|---|",
    ]
    for field in FIELDS:
        also = ", ".join(f"`{alias}`" for alias in field.aliases)
        said = field.help.replace("|", "\\|")
        lines.append(f"| `{field.name}` | {also} | {field.kind.value} | {said} |")
    return "\n".join(lines) + "\n"


def queries_page() -> str:
    """The named queries with their texts."""
    lines = [
        "# Named queries",
        "",
        "`divergraph query NAME [--run RUN] [-p PARAMETER=VALUE …]` asks one of these;",
        "[cypher.md](cypher.md) says what they are about,",
        "[team-memory.md](../how-to/team-memory.md) how packs add others.",
        "",
    ]
    for query in own_queries():
        lines += [f"## {query.name}", "", f"Answers {query.answers}", ""]
        lines += [f"* `${name}`: {kind}" for name, kind in query.parameters.items()]
        lines += [""] if query.parameters else []
        lines += [f"Columns: {', '.join(query.columns)}.", ""] if query.columns else []
        texts = {dialect: load(query.name, dialect).text for dialect in Dialect}
        if len(set(texts.values())) == 1:
            lines += ["```text", query.text, "```", ""]
        else:
            for dialect, text in texts.items():
                lines += [f"{dialect.value.capitalize()}:", "", "```text", text, "```", ""]
    return "\n".join(lines)


_VALUES: dict[str, type[Enum]] = {
    "`kind` of `Graph` and `Op`": model.GraphKind,
    "`kind` of `FEEDS` and `INPUT_OF`": model.EdgeKind,
    "`kind` of `Finding`": model.FindingKind,
    "`verdict`": model.Verdict,
    "`method`": model.Method,
    "`io`": model.TensorIO,
    "`state`": model.OpState,
    "`level`": model.Level,
    "`role`": model.Role,
    "`guilt`": model.Guilt,
    "`evidence`": model.LineageRule,
    "`reason`": model.Reason,
}
"""Texts of few values, as Cypher asks for them."""


def schema_page() -> str:
    """Labels, relationships and properties of the graph in a store."""
    lines = [
        "# What a store holds",
        "",
        "```mermaid",
        "flowchart LR",
        *_arrows(),
        "```",
        "",
        "Properties with their types; [cypher.md](cypher.md) explains them.",
        "",
    ]
    lines += ["| label | properties |", "|---|---|"]
    lines += [f"| `{node.label}` | {_columns(node.columns)} |" for node in NODES]
    lines += ["", "| relationship | from | to | properties |", "|---|---|---|---|"]
    for rel in RELS:
        lines.append(
            f"| `{rel.type}` | `{rel.source}` | `{rel.target}` | {_columns(rel.columns)} |"
        )
    lines += ["", "| property | is one of |", "|---|---|"]
    for names, values in _VALUES.items():
        lines.append(f"| {names} | {', '.join(f'`{one.value}`' for one in values)} |")
    questions = (FOLDER / "schema-questions.txt").read_text(encoding="utf-8")
    return "\n".join([*lines, "", questions])


def _arrows() -> Iterator[str]:
    """An arrow between two labels says all relationships that lead so."""
    types: dict[tuple[str, str], list[str]] = {}
    for rel in RELS:
        types.setdefault((rel.source, rel.target), []).append(rel.type)
    for (source, target), names in types.items():
        text = (", " if len(names) < 3 else "<br/>").join(names)
        yield f'  {source} -- "{text}" --> {target}'


def _columns(columns: Iterable[Column]) -> str:
    return ", ".join(f"`{column.name}` {column.type.value.lower()}" for column in columns)


def json_page() -> str:
    """What commands print with ``--json``."""
    lines = [(FOLDER / "json-rules.txt").read_text(encoding="utf-8")]
    for command, names in commands().items():
        lines += [f"## {command}", "", " or ".join(map(_link, names)), ""]
    lines += ["## Objects", ""]
    objects = _objects()
    for name in sorted(objects):
        lines += [f"### {name}", "", *_object(name), ""]
    lines += ["## Values", "", "| name | is one of |", "|---|---|"]
    for name in sorted({kind for each in objects for kind in _kinds(each)} - objects):
        lines.append(f"| {name} | {', '.join(f'`{value}`' for value in _values(name))} |")
    lines += ["", "| Reason | means |", "|---|---|"]
    lines += [f"| `{reason.value}` | {words} |" for reason, words in REASON_WORDS.items()]
    return "\n".join(lines) + "\n"


def _objects() -> set[str]:
    """The declared objects, and the records they refer to."""
    found: set[str] = set()
    new = {*answers()}
    while new:
        found |= new
        used = {kind for name in new for kind in _kinds(name) if not _values(kind)}
        new = used - found
    return found


def _object(name: str) -> list[str]:
    notes = answers()[name].notes if name in answers() else {}
    # A field stays on one line: it is wrapped as if it had no blanks.
    fields = (f"{field}: {kind}".replace(" ", "\0") for field, kind in fields_of(name).items())
    block = textwrap.wrap(f"{{{', '.join(fields)}}}", WIDTH, subsequent_indent=" ")
    block = [line.replace("\0", " ") for line in block]
    lines = [f"{notes['*'][0].upper()}{notes['*'][1:]}.", ""] if "*" in notes else []
    lines += ["```text", *block, "```"]
    said: dict[str, list[str]] = {}
    for field, text in notes.items():
        if field != "*":
            said.setdefault(text, []).append(f"`{field}`")
    if said:
        lines.append("")
    return lines + [f"* {', '.join(fields)}: {text}" for text, fields in said.items()]


def _kinds(name: str) -> set[str]:
    """The objects, records and enums the fields of *name* refer to."""
    kinds = " ".join(fields_of(name).values())
    words = set(re.findall(r'(?<!")\b[A-Z]\w+', kinds))
    assert all(word in answers() or hasattr(model, word) for word in words), words
    return words


def _values(name: str) -> list[str]:
    found = getattr(model, name, None)
    if isinstance(found, type) and issubclass(found, Enum):
        return [str(each.value) for each in found]
    return []


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


_IN_GRAPH = " \\*"


def faces_page() -> str:
    """What each question is called in each face."""
    lines = [
        "# Questions and their faces",
        "",
        "What a question is called on the command line, over HTTP (below `/v1`), as a tool of",
        "agents and in Python, and the address of its page; after \\* the graph shows the",
        "answer. The palette of `divergraph tui` asks it as `Ask: …`. All follow from one",
        "declaration each: [extend.md](../how-to/extend.md).",
        "",
        "| question | command | HTTP | page | tool | Python |",
        "|---|---|---|---|---|---|",
    ]
    paths: dict[type, list[str]] = {}
    for route in question_routes():
        paths.setdefault(route.question, []).append(f"`{route.path}`")
    for kind in map(own_question, own_names()):
        attribute = kind.name.replace("-", "_")
        page = f"{'/runs/{run}' if is_about_run(kind) else ''}/ask/{kind.name}"
        cells = (
            help_of(kind).replace("``", "`"),
            f"`{kind.command or kind.name}`",
            ", ".join(paths[kind]),
            f"`{page}`{_IN_GRAPH if kind.picture else ''}",
            f"`{kind.name}`",
            f"`{'run' if is_about_run(kind) else 'store'}.{attribute}`",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_commands_beside_questions()]) + "\n"


_NO_QUESTION = {
    "it makes a run, a graph or a part; a form of the terminal and a job of the server start it": (
        *("analyse", "compare", "import", "submodel", "watch"),
    ),
    "it reads tensors that are of no run: a page of a server and its job ask for their paths": (
        "diff",
    ),
    "it writes a file of a run; the run's page and HTTP offer the same file": ("export", "report"),
    "it runs something or reads files where they lie, named by their paths; a server reads only "
    "what runs were made of": (
        *("capture", "convert", "demo", "detect", "dump-config", "dumps", "logs"),
        *("npu-dump", "npu-overflow", "open", "replay", "tf-dump", "verify"),
    ),
    "it changes the store; HTTP, pages and keys of the terminal do as well, where a role allows": (
        *("baseline", "delete", "note", "rename"),
    ),
    "it keeps the store or the installation in order, on the machine where that is": (
        *("backup", "completion", "copy", "doctor", "neo4j", "restore", "schema", "store"),
    ),
    "it is a face itself": ("mcp", "precision-tool", "serve", "shell", "tui"),
    "its text is typed: a page, a view of the terminal, HTTP and a tool take it": ("query",),
}
"""Why a command, or what it does beside answering its question, has no row of its own."""


def _commands_beside_questions() -> Iterator[str]:
    asked = {(kind.command or kind.name).split()[0] for kind in map(own_question, own_names())}
    listed = {name for names in _NO_QUESTION.values() for name in names}
    if missing := set(COMMANDS) - asked - listed:
        raise ValueError(f"no reason why these ask no question: {sorted(missing)}")
    yield from ("Commands that are more or other than a question:", "", "| why | commands |")
    yield "|---|---|"
    for reason, names in _NO_QUESTION.items():
        yield f"| {reason} | {', '.join(f'`{name}`' for name in names)} |"


def man_page() -> str:
    """``man divergraph``: the commands under their headings; ``--help`` says more of each."""
    lines = [
        '.TH DIVERGRAPH 1 "" Divergraph "User Commands"',
        ".SH NAME",
        r"divergraph \- find the op where an accelerator's error starts, and how it spreads",
        ".SH SYNOPSIS",
        r".B divergraph \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        _roff(" ".join(_OF_ALL).replace("`", "")),
        r"divergraph \fICOMMAND\fR \-\-help says what a command takes.",
    ]
    for heading, listed in helped_sections().items():
        lines.append(f".SH {heading.upper()}")
        for name, said in listed.items():
            lines += [".TP", f".B {_roff(name)}", _roff(said.replace("`", ""))]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """*text* as one line of a man page, its dashes as they are typed."""
    return text.replace("\\", r"\e").replace("-", r"\-").removeprefix(".")


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "divergraph.1": man_page,
    "faces.md": faces_page,
    "filters.md": filters_page,
    "json.md": json_page,
    "keys.md": keys_page,
    "queries.md": queries_page,
    "schema.md": schema_page,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (FOLDER / page).write_text(text(), encoding="utf-8")
