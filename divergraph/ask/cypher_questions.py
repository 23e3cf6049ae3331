"""Questions in Cypher: the user's own, as they are typed."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, QueryResult
from graphstore.cypher.user_question import CypherQuestion


@dataclass(frozen=True, slots=True)
class RowsQuestion(Question[QueryResult]):
    """The rows of a query."""

    asked: CypherQuestion

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> QueryResult:
        """The rows, up to the question's limits.

        Raises:
            QueryError: the text is wrong, not allowed, or took too long.
        """
        return self.asked.answer(store, cancellation or Cancellation())


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How the store finds the rows, in the words of its engine."""

    plan: str


@dataclass(frozen=True, slots=True)
class PlanQuestion(Question[QueryPlan]):
    """How would the store find the rows of a query?"""

    asked: CypherQuestion

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> QueryPlan:
        """The engine's plan.

        Raises:
            QueryError: the text is wrong or not allowed.
        """
        return QueryPlan(self.asked.plan(store, cancellation or Cancellation()))
