"""The server's side: what a store answers to what :class:`graphstore.remote.store.RemoteStore`
asks. Everything only reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.limits import QueryLimits, as_limited
from graphstore.cypher.queries import NamedQuery, load
from graphstore.cypher.store import CypherStore
from graphstore.cypher.targets import TargetKeys
from graphstore.errors import InputError, StoreError, UnknownNameError
from graphstore.remote.wire import keys_json, keys_of, rows_text, table_bytes
from graphstore.schema import codec

_T = TypeVar("_T")
Asked: TypeAlias = Mapping[str, Any]
MOST_SECONDS = 300.0
"""So long a server works on one question."""
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


class StoreAnswerer:
    """Answers what is asked of *store* under the names in :data:`ANSWERS`."""

    def __init__(self, store: GraphStore) -> None:
        if not isinstance(store, CypherStore):
            raise StoreError("this store cannot be asked over HTTP", where=store.url)
        self._store = store

    def answer(self, what: str, request: Asked, cancellation: Cancellation) -> tuple[bytes, str]:
        """The body of the answer and its media type.

        Raises:
            UnknownNameError: nothing is asked under this name, or no such query.
            InputError: a field is missing or of another kind.
            StoreError: the run was replaced or deleted since its place was asked.
        """
        if what not in ANSWERS:
            raise UnknownNameError("question to a store", what)
        if what == "table":
            return table_bytes(self._table(request)), ARROW
        return ANSWERS[what](self, request, cancellation).encode(), JSON

    def _described(self, _request: Asked, _cancellation: Cancellation) -> str:
        return json.dumps({"dialect": self._store.dialect.value})

    def _runs(self, _request: Asked, _cancellation: Cancellation) -> str:
        return json.dumps({"runs": [codec.text_of(run) for run in self._store.runs()]})

    def _graphs(self, _request: Asked, _cancellation: Cancellation) -> str:
        return json.dumps({"graphs": [asdict(info) for info in self._store.graphs()]})

    def _run(self, request: Asked, _cancellation: Cancellation) -> str:
        try:
            text = codec.text_of(self._store.run(_text(request, "name")))
        except UnknownNameError:
            return json.dumps({"run": None})
        return json.dumps({"run": text})

    def _place(self, request: Asked, _cancellation: Cancellation) -> str:
        try:
            place = keys_json(self._store.place(_text(request, "name")))
        except UnknownNameError:
            return json.dumps({"place": None})
        return json.dumps({"place": place})

    def _rows(self, request: Asked, cancellation: Cancellation) -> str:
        values, limits = _values(request), _limits(request, cancellation)
        query = as_limited(self._own_query(request), values)
        return rows_text(self._store.rows_at(self._same_place(request), query, values, limits))

    def _table(self, request: Asked) -> Any:
        query = self._own_query(request)
        return self._store.table_at(self._same_place(request), query, _values(request))

    def _own_query(self, request: Asked) -> NamedQuery:
        """The query of ours that is named.

        Raises:
            InputError: it is of a pack: a stranger's text is asked under ``query``, with care.
        """
        query = load(_text(request, "query"), self._store.dialect)
        if query.pack:
            raise InputError(f"{query.name} is of a pack: its text is asked", where="query")
        return query

    def _same_place(self, request: Asked) -> TargetKeys:
        """Where the target is, if it is as it was when its place was asked."""
        wanted = keys_of(request.get("place"))
        if self._store.place(wanted.name) != wanted:
            raise StoreError(
                f"{wanted.name!r} was replaced or deleted while it was read",
                hint="do it again",
                retryable=True,
            )
        return wanted

    def _query(self, request: Asked, cancellation: Cancellation) -> str:
        answer = self._store.query(
            _text(request, "cypher"), _parameters(request, cancellation), _target(request)
        )
        return rows_text(answer)

    def _plan(self, request: Asked, cancellation: Cancellation) -> str:
        plan = self._store.explain(
            _text(request, "cypher"), _parameters(request, cancellation), _target(request)
        )
        return json.dumps({"plan": plan})

    def _remembered(self, request: Asked, _cancellation: Cancellation) -> str:
        return json.dumps({"texts": self._store.remembered(_text(request, "kind"))})

    def _info(self, _request: Asked, _cancellation: Cancellation) -> str:
        return json.dumps(asdict(self._store.info()))


ANSWERS: Mapping[str, Callable[[StoreAnswerer, Asked, Cancellation], str]] = {
    "described": StoreAnswerer._described,
    "runs": StoreAnswerer._runs,
    "graphs": StoreAnswerer._graphs,
    "run": StoreAnswerer._run,
    "place": StoreAnswerer._place,
    "rows": StoreAnswerer._rows,
    "table": StoreAnswerer._rows,
    "query": StoreAnswerer._query,
    "plan": StoreAnswerer._plan,
    "remembered": StoreAnswerer._remembered,
    "info": StoreAnswerer._info,
}
"""What can be asked; ``table`` is as ``rows``, with another form of the answer."""
FIELDS = {
    *("name", "place", "query", "values", "limit", "timeout", "cypher", "target", "kind"),
    "text",
}
"""The fields of all questions."""


def _text(request: Asked, field: str) -> str:
    value = request.get(field)
    if not isinstance(value, str):
        raise InputError("a text is needed", where=field)
    return value


def _values(request: Asked) -> Mapping[str, object]:
    values = request.get("values", {})
    if not isinstance(values, dict):
        raise InputError("it must be an object", where="values")
    return values


def _target(request: Asked) -> str | None:
    return None if request.get("target") is None else _text(request, "target")


def _limits(request: Asked, cancellation: Cancellation) -> QueryLimits:
    """The limits of a question; none takes longer than ``MOST_SECONDS``.

    Raises:
        InputError: one is no number above 0.
    """
    limit, seconds = request.get("limit"), request.get("timeout")
    if limit is not None and not (type(limit) is int and limit > 0):
        raise InputError("it must be a whole number above 0", where="limit")
    if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):
        raise InputError("it must be a number above 0", where="timeout")
    seconds_allowed = MOST_SECONDS if seconds is None else min(float(seconds), MOST_SECONDS)
    return QueryLimits(limit, seconds_allowed, cancellation)


def _parameters(request: Asked, cancellation: Cancellation) -> QueryParameters:
    limits = _limits(request, cancellation)
    if limits.limit is None:
        raise InputError("a number of rows is needed", where="limit")
    return QueryParameters(
        _values(request), limits.limit, limits.timeout or MOST_SECONDS, cancellation
    )


def record_in(request: Asked, kind: type[_T]) -> _T:
    """The record in the field ``text``.

    Raises:
        InputError: it is none.
    """
    try:
        return codec.record_of(kind, _text(request, "text"))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"it is no {kind.__name__.lower()}", where="text") from error
