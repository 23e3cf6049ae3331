"""A question in Cypher on a page: its text, words to complete it, the schema beside it, the rows
below."""

from __future__ import annotations

from collections.abc import Collection

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from divergraph.api.cypher_in_json import cypher_question
from divergraph.ask.cypher_questions import RowsQuestion
from divergraph.ask.cypher_words import completions, word_before
from divergraph.ask.facts import load_facts
from divergraph.ask.questions.queries import NamedQueriesQuestion
from divergraph.outcomes import outcome_of_error
from divergraph.present.declared_answer import json_of
from divergraph.server.answering import Answering, check_role
from divergraph.server.pages.links import Links, exact_query
from divergraph.server.pages.question_page import ROWS
from divergraph.server.pages.rendering import HEADERS, Pages
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import DivergraphError
from graphstore.schema.tables import NODES, RELS

_WORDS = 100
"""So many words are offered at once."""


class CypherPage:
    """Answers ``/ask/query``."""

    def __init__(self, answering: Answering, pages: Pages) -> None:
        self._answering, self._pages = answering, pages

    async def page(self, request: Request) -> Response:
        """The form, and the rows once there is a text or the name of a query."""
        if request.scope.get("link"):
            raise HTTPException(404)
        check_role(request, UserRole.READER)
        query = exact_query(request)
        cypher, run = query.get("cypher", "").strip(), query.get("run", "").strip()

        def work(cancellation: Cancellation) -> Response:
            store = self._answering.store
            ops: Collection[str] = ()
            shape, problem, status = None, "", 200
            if cypher:
                fields = {"cypher": cypher, "run": run or None, "limit": ROWS}
                question = RowsQuestion(cypher_question(fields, ROWS))
                try:
                    shape = json_of(question, question.ask(store, cancellation))
                    ops = self._ops(run)
                except DivergraphError as error:
                    problem, status = str(error), outcome_of_error(error).status
            values = {
                "cypher": cypher,
                "run": run,
                "names": [*(one.name for one in store.runs()), *(g.name for g in store.graphs())],
                "queries": NamedQueriesQuestion().ask().queries,
                "nodes": NODES,
                "rels": RELS,
                "answer": shape,
                "ops": ops,
                "problem": problem,
            }
            return self._pages.page(request, "cypher.html", values, status, Links())

        return await self._answering.pool.answer(request, work)

    async def words(self, request: Request) -> Response:
        """What may stand at the end of a text: the word there, and those that begin with it."""
        if request.scope.get("link"):
            raise HTTPException(404)
        check_role(request, UserRole.READER)
        before = exact_query(request).get("before", "")
        words = completions(before)[:_WORDS]
        return JSONResponse({"word": word_before(before), "words": words}, headers=HEADERS)

    def _ops(self, run: str) -> Collection[str]:
        """The device ops of a run, which have pages."""
        return load_facts(self._answering.store, run).arrays.number if run else ()
