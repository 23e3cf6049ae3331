"""The named queries: one ``.cypher`` file a question, the same text for every store.

Where a dialect forces it there are ``name.embedded.cypher`` and ``name.neo4j.cypher``.
A file starts with ``// Answers: ...`` (``// Internal: ...`` if only the stores need it)
and one ``// Parameter name: kind`` a parameter.
Kinds that end in ``op`` or ``ops`` take op ids of a graph; the store turns them into
node ids. ``$run``, ``$graph``, ``$golden`` and ``$device`` come from the target. Where only
so many rows are wanted, ``$end_topo`` and the like say among which ops they are looked for.

``$$metrics``, ``$$split``, ``$$brief_split`` and ``$$figures`` stand for the columns that hold
these of a Metric ``m``: the list follows from their records, and what is asked and shown is the
text with the list in it.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files

from graphstore.errors import UnknownNameError
from graphstore.schema.tables import FIGURE_COLUMNS, METRIC_SET_COLUMNS, SPLIT_COLUMNS

_ANSWERS = re.compile(r"^// (Answers|Internal): (.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"^// Parameter (\w+): (.+)$", re.MULTILINE)
_NAME = re.compile(r"[a-z]\w*")
_COMMENT = re.compile(r"^//.*\n", re.MULTILINE)
_GROUP = ("split_group", "reference")
"""What was run to split an error: texts a table of all ops has no room for."""
_COLUMNS: Mapping[str, Sequence[str]] = {
    "$$metrics": METRIC_SET_COLUMNS,
    "$$split": [column.name for column in SPLIT_COLUMNS],
    "$$brief_split": [column.name for column in SPLIT_COLUMNS if column.name not in _GROUP],
    "$$figures": [column.name for column in FIGURE_COLUMNS],
}
_WIDTH = 100
_INDENT = " " * len("RETURN ")


WINDOW = "end_topo"
"""The parameter of queries that can be asked for the first ops of a graph only."""
WINDOWED = (WINDOW, "whole_topo", "end_target", "first_node", "end_node")
"""It and the others that say the same of edges and of node ids."""


class Dialect(StrEnum):
    """Whose Cypher a text is for."""

    EMBEDDED = "embedded"
    NEO4J = "neo4j"


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query text without its comments, what it answers and its parameters by kind."""

    name: str
    text: str
    answers: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False


def is_name(text: str) -> bool:
    """True if *text* can only be the name of a query, not a query itself."""
    return _NAME.fullmatch(text) is not None


def load(name: str, dialect: Dialect) -> NamedQuery:
    """The query *name* as *dialect* needs it.

    Raises:
        UnknownNameError: there is no such query.
    """
    for stem in (f"{name}.{dialect}", name):
        if stem in _texts():
            return _parse(name, _texts()[stem])
    near = difflib.get_close_matches(name, [query.name for query in list_queries()])
    raise UnknownNameError("query", name, near=near)


def list_queries() -> list[NamedQuery]:
    """All named queries users can ask, by name; of two variants, the embedded one."""
    found: dict[str, NamedQuery] = {}
    for stem, text in _texts().items():
        name, _, dialect = stem.partition(".")
        if dialect != Dialect.NEO4J:
            found[name] = _parse(name, text)
    return [found[name] for name in sorted(found) if not found[name].internal]


@cache
def _texts() -> dict[str, str]:
    return {
        entry.name.removesuffix(".cypher"): _completed(entry.read_text(encoding="utf-8"))
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".cypher")
    }


def _completed(text: str) -> str:
    """*text* with the columns its placeholders stand for, in lines of usual length."""
    for placeholder, columns in _COLUMNS.items():
        if placeholder not in text:
            continue
        listed = ", ".join(f"m.{name} AS {name}" for name in columns)
        # Broken at commas only: "m.x AS x" stays whole.
        lines = textwrap.wrap(listed.replace(" AS ", "\0AS\0"), _WIDTH - len(_INDENT))
        text = text.replace(placeholder, f"\n{_INDENT}".join(lines).replace("\0", " "))
    return text


def _parse(name: str, text: str) -> NamedQuery:
    answers = _ANSWERS.search(text)
    if answers is None:
        raise ValueError(f"the query {name} does not say what it answers")
    return NamedQuery(
        name,
        _COMMENT.sub("", text).strip(),
        answers.group(2).strip(),
        dict(_PARAMETER.findall(text)),
        answers.group(1) == "Internal",
    )
