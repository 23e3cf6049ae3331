"""Cypher over HTTP: ``POST /v1/query`` and ``/v1/plan`` with a JSON object."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from divergraph.api.cypher_in_json import check_fields, cypher_question, cypher_schema
from divergraph.ask.cypher_questions import PlanQuestion, RowsQuestion
from divergraph.server.answering import Answering
from divergraph.server.bodies import read_body
from divergraph.server.settings import Limits
from graphstore.cypher.user_question import CypherQuestion
from graphstore.errors import InputError


class CypherRoutes:
    """Questions in Cypher, within the limits of the server."""

    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering = answering
        self._limits = limits

    async def rows(self, request: Request) -> Response:
        """The rows of a query; ``cypher`` is its text or the name of one."""
        question = await self._asked(request)
        return await self._answering.answer(request, RowsQuestion(question))

    async def plan(self, request: Request) -> Response:
        """How the store would find them."""
        question = await self._asked(request)
        return await self._answering.answer(request, PlanQuestion(question))

    async def _asked(self, request: Request) -> CypherQuestion:
        fields = set(cypher_schema(self._limits.page)["properties"])
        fields_sent = await read_object(request, self._limits, fields)
        return cypher_question(fields_sent, self._limits.page)


async def read_object(request: Request, limits: Limits, fields: set[str]) -> dict[str, Any]:
    """The JSON object in the body of *request*, with *fields* only.

    Raises:
        InputError: it is none.
        HTTPException: it is too large, or takes too long to come.
    """
    body = await read_body(request, limits)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the body is no JSON", hint="send an object") from error
    if not isinstance(document, dict):
        raise InputError("the body is no JSON object")
    check_fields(document, fields)
    return document
