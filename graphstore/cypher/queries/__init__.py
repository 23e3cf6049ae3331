"""The named queries: one ``.cypher`` file a question, the same text for every store.

Where a dialect forces it there are ``name.embedded.cypher`` and ``name.neo4j.cypher``.
:mod:`graphstore.cypher.query_file` says how a file looks; packs of others are read beside them.
``$run``, ``$graph``, ``$golden`` and ``$device`` come from the target. Where only
so many rows are wanted, ``$end_topo`` and the like say among which ops they are looked for.

``$$metrics``, ``$$split``, ``$$brief_split`` and ``$$figures`` stand for the columns that hold
these of a Metric ``m``: the list follows from their records, and what is asked and shown is the
text with the list in it.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from graphstore.cypher.query_file import Dialect, NamedQuery, parse_query
from graphstore.cypher.query_packs import query_packs
from graphstore.errors import UnknownNameError
from graphstore.schema.tables import FIGURE_COLUMNS, METRIC_SET_COLUMNS, SPLIT_COLUMNS

_NAME = re.compile(r"[a-z]\w*")
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


__all__ = [
    "WINDOW",
    "WINDOWED",
    "Dialect",
    "NamedQuery",
    "is_name",
    "list_queries",
    "load",
    "own_queries",
]

WINDOW = "end_topo"
"""The parameter of queries that can be asked for the first ops of a graph only."""
WINDOWED = (WINDOW, "whole_topo", "end_target", "first_node", "end_node")
"""It and the others that say the same of edges and of node ids."""


def is_name(text: str) -> bool:
    """True if *text* can only be the name of a query, not a query itself."""
    return _NAME.fullmatch(text) is not None


def load(name: str, dialect: Dialect) -> NamedQuery:
    """The query *name* as *dialect* needs it; ours are looked for first.

    Raises:
        UnknownNameError: there is no such query.
        InputError: a pack that might have it is not what it should be.
    """
    own = _texts()
    for stem in (f"{name}.{dialect}", name):
        if stem in own:
            return parse_query(name, own[stem])
    queries = dict(_of_packs())
    for stem in (f"{name}.{dialect}", name):
        if stem in queries:
            return queries[stem]
    matches = difflib.get_close_matches(name, [query.name for query in list_queries()])
    raise UnknownNameError("query", name, near=matches)


def list_queries() -> list[NamedQuery]:
    """All named queries users can ask, by name; of two variants, the embedded one.

    Raises:
        InputError: a pack is not what it should be.
    """
    return sorted([*own_queries(), *_by_name(_of_packs())], key=lambda query: query.name)


def own_queries() -> list[NamedQuery]:
    """Those that come with the program, by name."""
    parsed = ((stem, parse_query(stem.partition(".")[0], text)) for stem, text in _texts().items())
    queries = _by_name(parsed)
    return sorted((query for query in queries if not query.internal), key=lambda query: query.name)


def _by_name(queries: Iterable[tuple[str, NamedQuery]]) -> list[NamedQuery]:
    queries_by_name: dict[str, NamedQuery] = {}
    for stem, query in queries:
        if stem.partition(".")[2] == Dialect.NEO4J:
            queries_by_name.setdefault(query.name, query)
        else:
            queries_by_name[query.name] = query
    return list(queries_by_name.values())


def _of_packs() -> Iterator[tuple[str, NamedQuery]]:
    own_stems = {stem.partition(".")[0] for stem in _texts()}
    for pack in query_packs(own_stems):
        yield from pack.queries.items()


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
