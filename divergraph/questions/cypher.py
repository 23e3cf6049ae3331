"""Questions in Cypher: the user's own, and those with a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.shapes import Json, query_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, QueryResult
from graphstore.cypher.queries import NamedQuery, list_queries
from graphstore.cypher.user_question import CypherQuestion


@dataclass(frozen=True, slots=True)
class RowsQuestion(WrittenQuestion[QueryResult]):
    """The rows of a query."""

    asked: CypherQuestion

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> QueryResult:
        """The rows, up to the question's limits.

        Raises:
            QueryError: the text is wrong, not allowed, or took too long.
        """
        return self.asked.answer(store, cancellation or Cancellation())

    def json(self, answer: QueryResult) -> Mapping[str, Json]:
        """What ``query`` prints."""
        return query_json(answer)


@dataclass(frozen=True, slots=True)
class PlanQuestion(WrittenQuestion[str]):
    """How would the store find the rows of a query?"""

    asked: CypherQuestion

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> str:
        """The engine's plan.

        Raises:
            QueryError: the text is wrong or not allowed.
        """
        return self.asked.plan(store, cancellation or Cancellation())

    def json(self, answer: str) -> Mapping[str, Json]:
        """What ``query --explain`` prints."""
        return {"plan": answer}


@dataclass(frozen=True, slots=True)
class NamedQueriesQuestion(WrittenQuestion[Sequence[NamedQuery]]):
    """Which queries have a name?"""

    name = "queries"
    command = "query --list"
    shapes = ("QueryList",)

    def ask(
        self, store: GraphStore | None = None, cancellation: Cancellation | None = None
    ) -> Sequence[NamedQuery]:
        """All of them; they are the same for every store.

        Raises:
            InputError: a pack of others is not what it should be.
        """
        return list_queries()

    def json(self, answer: Sequence[NamedQuery]) -> Mapping[str, Json]:
        """What ``query --list`` prints."""
        return {
            "queries": [
                {
                    "name": query.name,
                    "answers": query.answers,
                    "parameters": list(query.parameters),
                    "pack": query.pack or None,
                }
                for query in answer
            ]
        }
