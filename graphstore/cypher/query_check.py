"""Ask a named query about the small graphs it comes with, and say what it does not do."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from graphstore.cypher.limits import QueryLimits
from graphstore.cypher.query_file import NamedQuery, QueryCase
from graphstore.cypher.small_runs import small_run
from graphstore.cypher.store import CypherStore
from graphstore.cypher.user_question import typed_value
from graphstore.errors import InputError

_MOST = QueryLimits(limit=1000, timeout=30.0)


@dataclass(frozen=True, slots=True)
class QueryFault:
    """What a query does not do as its file says: at ``place``, a file with a line, on a ``store``
    of this kind."""

    query: str
    place: str
    said: str
    store: str


class QueryChecks:
    """Checks queries on *store*: use it with ``with``; its small runs are deleted at the end.

    Queries that name the same graph are asked about the same run.
    """

    def __init__(self, store: CypherStore) -> None:
        self._store = store
        self._token = secrets.token_hex(6)
        self._saved: dict[tuple[str, ...], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for name in self._saved.values():
            self._store.delete(name)

    def faults(self, query: NamedQuery) -> Iterator[QueryFault]:
        """What is wrong with *query*.

        Raises:
            StoreError: the store cannot be written.
        """
        file, kind = query.place or f"{query.name}.cypher", self._store.dialect.value
        for message in _lacking(query):
            yield QueryFault(query.name, f"{file}:1", message, kind)
        for case in query.cases:
            message, line = self._fault(query, case, file)
            if message:
                yield QueryFault(query.name, f"{file}:{line}", message, kind)

    def _fault(self, query: NamedQuery, case: QueryCase, file: str) -> tuple[str, int]:
        """What goes wrong at one graph, and in which line; an empty text if nothing does."""
        try:
            name = self._run_of(case, file)
        except InputError as error:
            line = error.where.rpartition(":")[2]
            message = f"{error.what} ({error.hint})" if error.hint else error.what
            return message, int(line) if line.isdecimal() else case.number
        kinds, case_values = query.parameters, case.given.items()
        values = {key: typed_value(text, kinds.get(key)) for key, text in case_values}
        try:
            answer = self._store.answer(query, name, values, _MOST)
        except InputError as error:
            return str(error), case.number
        if query.columns and answer.columns != query.columns:
            return f"gives the columns {', '.join(answer.columns)}", case.number
        if case.hits and not answer.rows:
            return "finds nothing in a graph in which it must", case.number
        if not case.hits and answer.rows:
            first = ", ".join(str(value) for value in answer.rows[0])
            return f"finds something in a graph in which it must not: {first}", case.number
        return "", 0

    def _run_of(self, case: QueryCase, file: str) -> str:
        """The name of the run that *case* describes, saved when it is first asked for."""
        key = tuple(text for _, text in case.lines)
        if key not in self._saved:
            name = f"query-check-{self._token}-{len(self._saved) + 1}"
            self._store.save_run(small_run(name, case.lines, file))
            self._saved[key] = name
        return self._saved[key]


def _lacking(query: NamedQuery) -> Iterator[str]:
    """What the file of *query* does not say, and should."""
    if not any(case.hits for case in query.cases):
        yield "has no `// Hits:` graph, at which it must find something"
    if all(case.hits for case in query.cases):
        yield "has no `// Misses:` graph, at which it must find nothing"
    if not query.columns:
        yield "does not say its columns: `// Columns: op, error`"
