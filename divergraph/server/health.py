"""How the server is, for load balancers and monitoring systems."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from divergraph.server.answering import Answering, check_role
from divergraph.server.figures import MEDIA_TYPE, RequestFigures
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import StoreError


class HealthRoutes:
    """Whether the server lives, whether it can answer, and what it has done."""

    def __init__(self, answering: Answering, figures: RequestFigures) -> None:
        self._answering, self._figures = answering, figures

    async def alive(self, _request: Request) -> Response:
        """That it lives."""
        return PlainTextResponse("alive\n")

    async def ready(self, request: Request) -> Response:
        """Whether its store can be read."""
        try:
            await self._answering.pool.answer(request, self._look)
        except StoreError:
            return PlainTextResponse("the store cannot be used\n", 503)
        return PlainTextResponse("ready\n")

    async def metrics(self, request: Request) -> Response:
        """Counts and times of requests."""
        check_role(request, UserRole.READER)
        return PlainTextResponse(self._figures.text(), media_type=MEDIA_TYPE)

    def _look(self, _cancellation: Cancellation) -> None:
        self._answering.store.graphs()
