"""Queries that have a name."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.cypher.queries import NamedQuery, list_queries


@dataclass(frozen=True, slots=True)
class NamedQueries:
    """The queries that can be asked by name."""

    queries: tuple[NamedQuery, ...]


@dataclass(frozen=True, slots=True)
class NamedQueriesQuestion(Question[NamedQueries]):
    """Which queries have a name?"""

    name = "queries"
    command = "query --list"
    shapes = ("QueryList",)

    def ask(
        self, store: GraphStore | None = None, cancellation: Cancellation | None = None
    ) -> NamedQueries:
        """All of them; they are the same for every store.

        Raises:
            InputError: a pack of others is not what it should be.
        """
        return NamedQueries(tuple(list_queries()))


QUESTION = NamedQueriesQuestion
