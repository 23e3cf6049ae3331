"""Database files of the embedded engine, read by any number of processes."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher import arrow_columns as arrow
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.embedded.engine import connect, engine_errors, open_file
from graphstore.errors import DivergraphError, QueryError, StoreError
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
    """A database file opened read-only; several processes and threads may do so at once."""

    def __init__(self, path: Path) -> None:
        self._idle = threading.Condition()
        self._running: set[Any] = set()
        self.path = path
        with engine_errors(path):
            # a file that is gone is for the engine to say
            self._database: Any = self._opened()

    def _opened(self) -> Any:
        size = self.path.stat().st_size if self.path.is_file() else 0
        return open_file(self.path, read_only=True, wanted=_POOL_A_BYTE * size)

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

    def asked_table(self, cypher: str, params: Mapping[str, object]) -> Any:
        """All rows of a query as an Arrow table.

        Raises:
            StoreError: the engine cannot read them, or the store was closed meanwhile.
        """
        with self._connection() as connection:
            try:
                result = connection.execute(cypher, dict(params))
                try:
                    return result.get_as_arrow(100_000)
                finally:
                    result.close()
            except RuntimeError as error:
                raise query_error(cypher, str(error), None) from error

    def rest(self) -> None:
        """Let go of the engine's buffers, if no query runs; the next one opens the file again."""
        with self._idle:
            if not self._running and self._database is not None:
                self._database.close()
                self._database = None

    def close(self) -> None:
        """Stop the queries that still run and release the file."""
        with self._idle:
            for connection in self._running:
                connection.interrupt()
            self._idle.wait_for(lambda: not self._running)
            if self._database is not None:
                self._database.close()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        with self._idle:
            if self._database is None:
                with engine_errors(self.path):
                    self._database = self._opened()
            connection = connect(self._database)
            self._running.add(connection)
        try:
            yield connection
        finally:
            connection.close()
            with self._idle:
                self._running.discard(connection)
                self._idle.notify_all()


def _collect(result: Any, limit: int | None, stopped: Cancellation) -> QueryResult:
    columns = tuple(result.get_column_names())
    if limit is None and result.get_num_tuples() >= _MANY_ROWS:
        table = result.get_as_arrow(100_000)
        return QueryResult(columns, tuple(zip(*map(_values, table.columns), strict=True)))
    rows: list[tuple[object, ...]] = []
    while result.has_next():
        row = result.get_next()
        if limit is not None and len(rows) == limit:
            return QueryResult(columns, tuple(rows), truncated=True)
        stopped.check()
        rows.append(tuple(_plain(value) for value in row))
    return QueryResult(columns, tuple(rows))


def _values(column: Any) -> Sequence[object]:
    """The same as ``column.to_pylist()``, several times as fast for texts and numbers.

    Not by ``to_numpy``, which imports pandas where that is installed: that takes a second.
    """
    import pyarrow as pa

    kind = column.type
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(kind):
        return arrow.texts(column)
    if pa.types.is_list(kind):
        return [value for part in column.chunks for value in _lists(part)]
    if pa.types.is_signed_integer(kind):
        return arrow.with_nulls(column, arrow.integers(column).tolist())
    if pa.types.is_float64(kind):
        return arrow.with_nulls(column, arrow.floats(column).tolist())
    if pa.types.is_boolean(kind):
        return arrow.with_nulls(column, arrow.truths(column).tolist())
    others: list[object] = column.to_pylist()
    return others


def _lists(part: Any) -> Iterator[list[object] | None]:
    """The same as ``part.to_pylist()`` of an array of lists, several times as fast."""
    import pyarrow as pa

    ends = arrow.integers(part.offsets).tolist()
    start = ends[0]
    content = part.values.slice(start, ends[-1] - start)
    is_text = pa.types.is_string(content.type)
    values = arrow.texts(content) if is_text else content.to_pylist()
    there = arrow.known(part).tolist()
    for (low, high), is_set in zip(pairwise(ends), there, strict=True):
        yield [*values[low - start : high - start]] if is_set else None


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
    if first.startswith("Interrupted") and timeout is None:
        return StoreError("the store was closed while a query ran")
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
    columns = sorted(
        {column.name for node in NODES for column in node.columns} - {name}
        | {column.name for rel in RELS for column in rel.columns} - {name}
    )
    place = re.search(rf"\b{re.escape(variable)}\s*\.\s*`?({re.escape(name)})\b", cypher)
    position = _word_place(cypher, name) if place is None else place.start(1)
    return QueryError(
        f"{variable} has no property {name}", position=position, hint=_name_hint(name, columns)
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


# A parameter is compared with every row of a table; with a literal, blocks of rows whose least
# and greatest value exclude it are not read. For a million ops that is a fifth of the time.

_INT64 = 2**63


def with_numbers(cypher: str, params: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """*cypher* with the whole numbers of *params* in it, and the other parameters.

    The engine skips blocks of rows by literals alone, in comparisons: a list of numbers gets the
    lowest and the highest of them beside it. *cypher* is one of our own texts: no text or name in
    it looks like a parameter.
    """
    numbers = {
        name: value
        for name, value in params.items()
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _INT64
    }

    def written(match: re.Match[str]) -> str:
        name = match.group(1)
        return str(numbers[name]) if name in numbers else match.group()

    def bounded(match: re.Match[str]) -> str:
        what, listed = match.group(1), params.get(match.group(2))
        if not isinstance(listed, list) or not all(type(n) is int for n in listed):
            return match.group()
        low, high = min(listed, default=0), max(listed, default=0)
        if low < 0 or high >= _INT64:
            return match.group()
        return f"{what} >= {low} AND {what} <= {high} AND {match.group()}"

    others = {name: value for name, value in params.items() if name not in numbers}
    cypher = re.sub(r"(\w+\.\w+) IN \$(\w+)", bounded, cypher)
    return re.sub(r"\$(\w+)", written, cypher), others
