"""What is changed over HTTP: names, and whether a run is there at all."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from divergraph.api.cypher_in_json import text_field
from divergraph.ask.memory.baselines import delete_entry
from divergraph.server.answering import Answering, check_role, document
from divergraph.server.cypher_routes import read_object
from divergraph.server.settings import Limits
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation


class ChangingRoutes:
    """Runs and imported graphs get other names, or go."""

    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering = answering
        self._limits = limits

    async def rename(self, request: Request) -> Response:
        """Another name, ``{"name": ...}``, for a run or graph."""
        check_role(request, UserRole.ANALYST)
        old = request.path_params["run"]
        new = text_field(await read_object(request, self._limits, {"name"}), "name")
        return await self._answering.pool.answer(request, partial(self._rename, old, new))

    async def delete(self, request: Request) -> Response:
        """A run or graph goes."""
        check_role(request, UserRole.ADMIN)
        name = request.path_params["run"]
        return await self._answering.pool.answer(request, partial(self._delete, name))

    def _rename(self, old: str, new: str, _cancellation: Cancellation) -> Response:
        self._answering.store.rename(old, new)
        return document({"renamed": old, "to": new})

    def _delete(self, name: str, _cancellation: Cancellation) -> Response:
        gone = delete_entry(self._answering.store, name)
        baseline_of = None if gone is None else gone.model
        return document({"deleted": name, "baseline_of": baseline_of})
