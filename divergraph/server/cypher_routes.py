"""Cypher over HTTP: ``POST /v1/query`` and ``/v1/plan`` with a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from divergraph.questions.cypher import NamedQueriesQuestion, PlanQuestion, RowsQuestion
from divergraph.server.answering import Answering
from divergraph.server.bodies import read_body
from divergraph.server.settings import Limits
from graphstore.cypher.user_question import CypherQuestion
from graphstore.errors import InputError
from graphstore.remote.answerer import MOST_SECONDS

_FIELDS = {"cypher", "run", "parameters", "limit", "timeout"}
_TIMEOUT = 30.0
_ROWS = 1000


class CypherRoutes:
    """Questions in Cypher, within the limits of the server."""

    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering = answering
        self._limits = limits

    async def rows(self, request: Request) -> Response:
        """The rows of a query; ``cypher`` is its text or the name of one."""
        asked = _asked(await read_object(request, self._limits, _FIELDS), self._limits)
        return await self._answering.answer(request, RowsQuestion(asked))

    async def plan(self, request: Request) -> Response:
        """How the store would find them."""
        asked = _asked(await read_object(request, self._limits, _FIELDS), self._limits)
        return await self._answering.answer(request, PlanQuestion(asked))

    async def named(self, request: Request) -> Response:
        """The queries that have a name."""
        return await self._answering.answer(request, NamedQueriesQuestion())


async def read_object(request: Request, limits: Limits, fields: set[str]) -> dict[str, Any]:
    """The JSON object in the body of *request*, with *fields* only.

    Raises:
        InputError: it is none.
        HTTPException: it is too large, or takes too long to come.
    """
    body = await read_body(request, limits)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the body is no JSON", hint="send an object") from error
    if not isinstance(found, dict):
        raise InputError("the body is no JSON object")
    if unknown := sorted(set(found) - fields):
        hint = f"it has {', '.join(sorted(fields))}"
        raise InputError("there is no such field", where=unknown[0], hint=hint)
    return found


def text_field(given: Mapping[str, Any], name: str) -> str:
    """The text in a field of a body.

    Raises:
        InputError: there is none.
    """
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputError("a text is needed", where=name)
    return value


def _asked(given: Mapping[str, Any], limits: Limits) -> CypherQuestion:
    run, parameters = given.get("run"), given.get("parameters", {})
    if run is not None and not isinstance(run, str):
        raise InputError("it must be a name", where="run")
    if not isinstance(parameters, dict):
        raise InputError("it must be an object", where="parameters")
    rows = _number(given, "limit", _ROWS, limits.page)
    if not rows.is_integer():
        raise InputError("it must be a whole number", where="limit")
    seconds = _number(given, "timeout", _TIMEOUT, MOST_SECONDS)
    # the question takes parameters as typed: JSON
    texts = {name: json.dumps(value) for name, value in parameters.items()}
    return CypherQuestion(text_field(given, "cypher"), run, texts, int(rows), seconds)


def _number(given: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise InputError(f"it must be a number above 0, up to {most:g}", where=name)
    return float(value)
