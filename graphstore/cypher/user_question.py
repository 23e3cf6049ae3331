"""A question in Cypher, the user's own or one with a name: its values, its answer, its plan."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, QueryParameters, QueryResult
from graphstore.cypher.queries import Dialect, NamedQuery, is_name, load
from graphstore.errors import InputError


@dataclass(frozen=True, slots=True)
class CypherQuestion:
    """*cypher* is a text or the name of a query, ``given`` are its parameters as typed: JSON, or
    texts. ``target`` is the run or graph it is about; it gives at most ``limit`` rows and takes
    ``timeout`` seconds at most."""

    cypher: str
    target: str | None
    given: Mapping[str, str]
    limit: int
    timeout: float

    def answer(self, store: GraphStore, cancellation: Cancellation) -> QueryResult:
        """The rows; another thread may cancel.

        Raises:
            InputError: a named query is about one run or graph, and none is given.
            QueryError: the engine refuses it, or the time is over.
        """
        named = self._named(store)
        if named is not None and self.target is not None:
            return store.named(
                self.cypher,
                self.target,
                self._values(named),
                limit=self.limit,
                timeout=self.timeout,
                cancellation=cancellation,
            )
        text = self.cypher
        if named is not None:
            text = named.text
            if _ABOUT_ONE.search(text):
                raise InputError(
                    f"the query {self.cypher} is about one run or graph", hint="give --run"
                )
        return store.query(text, self._parameters(named, cancellation), self.target)

    def plan(self, store: GraphStore, cancellation: Cancellation) -> str:
        """How the store would find the rows."""
        parameters = self._parameters(self._named(store), cancellation)
        return store.explain(self.cypher, parameters, self.target)

    def _named(self, store: GraphStore) -> NamedQuery | None:
        return load(self.cypher, dialect_of(store)) if is_name(self.cypher) else None

    def _parameters(self, named: NamedQuery | None, cancellation: Cancellation) -> QueryParameters:
        return QueryParameters(self._values(named), self.limit, self.timeout, cancellation)

    def _values(self, named: NamedQuery | None) -> dict[str, object]:
        kinds = {} if named is None else named.parameters
        return {name: typed_value(text, kinds.get(name)) for name, text in self.given.items()}


_ABOUT_ONE = re.compile(r"\$(?:run|graph|golden|device)\b")
"""Parameters that come from the run or graph that is asked about."""


def dialect_of(store: GraphStore) -> Dialect:
    """The Cypher of *store*'s engine."""
    from graphstore.cypher.store import CypherStore

    return store.dialect if isinstance(store, CypherStore) else Dialect.EMBEDDED


def cell_text(value: object) -> str:
    """One value of an answer: lists, maps and truth values as JSON, nothing for null."""
    if isinstance(value, list | tuple | dict | bool):
        return json.dumps(value, default=str, ensure_ascii=False)
    return "" if value is None else str(value)


def typed_value(text: str, kind: str | None) -> object:
    """What *text* means as a parameter: JSON if it is any; what a named query takes as text or op
    is a text, come what may."""
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    is_text = kind is not None and (kind == "text" or kind.endswith("op"))
    return text if is_text and not isinstance(value, str) else value
