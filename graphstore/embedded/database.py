"""Database files of the embedded engine, read by any number of processes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher.arrow_columns import values_of
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.embedded.engine import connect, engine_errors, open_file
from graphstore.errors import DivergraphError, QueryError
from graphstore.schema.tables import NODES, RELS, RENAMED, ColumnType

_POOL_A_BYTE = 2
"""The memory the engine may take for each byte of the file it reads."""
_MANY_ROWS = 1000
"""From here on, taking all rows through Arrow is faster than one by one."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_INTERNAL_KEYS = ("_ID", "_SRC", "_DST")
_NUMBERED = frozenset(node.label for node in NODES if node.columns[0].type is ColumnType.INT64)
"""Labels whose ids are numbers."""


class ReadDatabase:
    """A database file opened read-only; several processes may do so at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with engine_errors(path):
            # a file that is gone is for the engine to say
            size = path.stat().st_size if path.is_file() else 0
            self._database: Any = open_file(path, read_only=True, wanted=_POOL_A_BYTE * size)

    def ask(
        self,
        cypher: str,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
        before: str = "",
    ) -> QueryResult:
        """The rows of a query.

        *before* is put before it; positions in errors are those in *cypher* itself.

        Raises:
            QueryError: the engine refuses the query, it takes too long or is cancelled.
        """
        stopped, timeout = limits.cancellation or Cancellation(), limits.timeout
        with (
            self._connection() as connection,
            stopped.stopping(connection.interrupt),
            # a single function of the engine hears neither its clock nor an interrupt
            stopped.watching(timeout, too_long(timeout)),
        ):
            if timeout is not None:
                connection.set_query_timeout(max(1, int(timeout * 1000)))
            try:
                result = connection.execute(before + cypher, dict(params))
            except RuntimeError as error:
                stopped.check()
                raise query_error(cypher, str(error), timeout, len(before)) from error
            except (ValueError, TypeError, OverflowError) as error:
                # what the engine's binding says of values it cannot take
                raise QueryError(f"a parameter cannot be used: {error}") from error
            if isinstance(result, list):
                raise QueryError("one statement at a time")
            try:
                return _collect(result, limits.limit, stopped)
            except ValueError as error:  # a text that is none, or a number that is none
                if _SURROGATE.search(cypher):
                    raise QueryError("half of a surrogate pair (\\ud800) is no text") from error
                raise QueryError(
                    "the embedded engine mixes up the ids of nodes of several labels",
                    hint="name one label for each node, or the properties you want",
                ) from error
            except RuntimeError as error:
                stopped.check()
                raise query_error(cypher, str(error), timeout) from error
            finally:
                result.close()

    def table(self, cypher: str) -> Any:
        """All rows of a query as an Arrow table, in the order they are stored in.

        Raises:
            StoreError: the engine cannot read them.
        """
        with engine_errors(self.path), self._connection() as connection:
            connection.set_max_threads_for_exec(1)
            result = connection.execute(cypher)
            try:
                return result.get_as_arrow(100_000)
            finally:
                result.close()

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connection = connect(self._database)
        try:
            yield connection
        finally:
            connection.close()


def _collect(result: Any, limit: int | None, stopped: Cancellation) -> QueryResult:
    columns = tuple(result.get_column_names())
    if limit is None and result.get_num_tuples() >= _MANY_ROWS:
        table = result.get_as_arrow(100_000)
        return QueryResult(columns, tuple(zip(*map(values_of, table.columns), strict=True)))
    rows: list[tuple[object, ...]] = []
    while result.has_next():
        row = result.get_next()
        if limit is not None and len(rows) == limit:
            return QueryResult(columns, tuple(rows), truncated=True)
        stopped.check()
        rows.append(tuple(_plain(value) for value in row))
    return QueryResult(columns, tuple(rows))


def _plain(value: Any) -> object:
    """Nodes and relationships as dicts of what is set, without the engine's own ids."""
    if isinstance(value, dict) and "_LABEL" in value:
        properties = {k: v for k, v in value.items() if v is not None and k not in _INTERNAL_KEYS}
        label = properties.pop("_LABEL")
        if label in _NUMBERED and isinstance(properties.get("id"), str):
            # beside nodes whose ids are texts, the engine makes texts of numbers
            properties["id"] = int(properties["id"])
        return {"_label": label, **properties}
    return value


_PLACE = re.compile(r"\(line: (\d+), offset: (\d+)\)")
_KIND = re.compile(r"^(?:Parser|Binder|Catalog|Runtime|Conversion) exception: ")
_NO_PROPERTY = re.compile(r"Cannot find property (\S+) for (\S+?)\.?$")
_NO_TABLE = re.compile(r"Table (\S+) does not exist")
_NOT_IN_SCOPE = re.compile(r"Variable (\S+) is not in scope")


def too_long(timeout: float | None) -> QueryError:
    """The error of a query that took longer than *timeout* seconds."""
    limit = "any limit" if timeout is None else f"{timeout:g} s"
    return QueryError(
        f"the query took longer than {limit}", hint="narrow it, or raise the time limit"
    )


def query_error(
    cypher: str, message: str, timeout: float | None, before: int = 0
) -> DivergraphError:
    """The error behind the engine's *message*.

    The engine was given *cypher* after so many other characters of one line as *before* says.
    """
    first = message.strip().partition("\n")[0]
    if first.startswith("Interrupted"):
        return too_long(timeout)
    place = _PLACE.search(first)
    position = None
    if place is not None:
        position = max(0, _offset(" " * before + cypher, int(place[1]), int(place[2])) - before)
        first = first[: place.start()].strip()
    first = _KIND.sub("", first)
    refused = _unknown_property(cypher, first) or _unknown_table(cypher, first)
    if refused is not None:
        return refused
    scope = _NOT_IN_SCOPE.match(first)
    if scope is not None:
        position = _word_place(cypher, scope[1])
    return QueryError(first, position=position)


def _unknown_property(cypher: str, message: str) -> QueryError | None:
    match = _NO_PROPERTY.match(message)
    if match is None:
        return None
    name, variable = match[1], match[2]
    owners = {
        **{node.label: {column.name for column in node.columns} for node in NODES},
        **{rel.type: {column.name for column in rel.columns} for rel in RELS},
    }
    having = [owner for owner, columns in owners.items() if name in columns]
    hint = f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it" if having else ""
    place = re.search(rf"\b{re.escape(variable)}\s*\.\s*`?({re.escape(name)})\b", cypher)
    position = _word_place(cypher, name) if place is None else place.start(1)
    return QueryError(
        f"{variable} has no property {name}",
        position=position,
        hint=hint or _name_hint(name, sorted(set().union(*owners.values()))),
    )


def _unknown_table(cypher: str, message: str) -> QueryError | None:
    match = _NO_TABLE.match(message)
    if match is None:
        return None
    names = [table.label for table in NODES] + [table.type for table in RELS]
    return QueryError(
        f"there is no label or relationship {match[1]}",
        position=_word_place(cypher, match[1]),
        hint=_name_hint(match[1], names) or f"there are {', '.join(names)}",
    )


def _name_hint(name: str, names: list[str]) -> str:
    if name in RENAMED:
        return RENAMED[name]
    lower = {name.lower(): name for name in names}
    matches = difflib.get_close_matches(name.lower(), lower)
    return f"did you mean {', '.join(lower[one] for one in matches)}?" if matches else ""


def _word_place(cypher: str, word: str) -> int | None:
    match = re.search(rf"\b{re.escape(word)}\b", cypher)
    return None if match is None else match.start()


def _offset(cypher: str, line: int, column: int) -> int:
    before = cypher.splitlines(keepends=True)[: line - 1]
    return sum(map(len, before)) + column
