"""The store itself over HTTP, for commands and the terminal UI on other machines: ``--store URL``.

Whoever asks may as much as in Cypher: read.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from divergraph.api.cypher_in_json import text_field
from divergraph.server.answering import Answering, check_role, document
from divergraph.server.cypher_routes import read_object
from divergraph.server.memory.routes import author_of, check_author
from divergraph.server.route_table import VERSION
from divergraph.server.settings import Limits
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.model import Baseline, Note
from graphstore.remote.answerer import FIELDS, StoreAnswerer, record_in

_PACKED = 1024
"""Bytes from which on an answer is packed, for who takes it so."""


class StoreRoutes:
    """Answers :class:`graphstore.remote.store.RemoteStore`."""

    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering, self._limits = answering, limits
        self._store = answering.store
        self._answerer = StoreAnswerer(self._store)

    def routes(self) -> list[Route]:
        """The addresses, with what is asked as their end."""
        place = f"{VERSION}/store"
        return [
            Route(f"{place}/keep-note", self.keep_note, methods=["POST"]),
            Route(f"{place}/keep-baseline", self.keep_baseline, methods=["POST"]),
            Route(f"{place}/drop-baseline", self.drop_baseline, methods=["POST"]),
            Route(f"{place}/{{what}}", self.answer, methods=["POST"]),
        ]

    async def keep_note(self, request: Request) -> Response:
        """A note of who asks, or another text for one they may change."""
        asked = await self._of_analyst(request)
        note = record_in(asked, Note)

        def work() -> None:
            known = next((each for each in self._store.notes() if each.id == note.id), None)
            if known is not None:
                check_author(request, known)
            author = author_of(request) if known is None else known.author
            self._store.keep_note(replace(note, author=author))

        return await self._done(request, work)

    async def keep_baseline(self, request: Request) -> Response:
        """A run others of its model are held against."""
        asked = await self._of_analyst(request)
        baseline = replace(record_in(asked, Baseline), author=author_of(request))
        return await self._done(request, lambda: self._store.keep_baseline(baseline))

    async def drop_baseline(self, request: Request) -> Response:
        """No baseline for a model."""
        asked = await self._of_analyst(request)
        model = text_field(asked, "name")
        return await self._done(request, lambda: self._store.drop_baseline(model))

    async def _of_analyst(self, request: Request) -> dict[str, Any]:
        check_role(request, UserRole.ANALYST)
        return await read_object(request, self._limits, FIELDS)

    async def _done(self, request: Request, work: Callable[[], None]) -> Response:
        def answer(_cancellation: Cancellation) -> Response:
            work()
            return document({"done": True})

        return await self._answering.pool.answer(request, answer)

    async def answer(self, request: Request) -> Response:
        """What the store says."""
        check_role(request, UserRole.READER)
        asked = await read_object(request, self._limits, FIELDS)
        what = request.path_params["what"]
        packs = "gzip" in request.headers.get("accept-encoding", "")

        def work(cancellation: Cancellation) -> Response:
            body, kind = self._answerer.answer(what, asked, cancellation)
            if packs and len(body) >= _PACKED:
                packed = gzip.compress(body, compresslevel=1)
                return Response(packed, 200, {"Content-Encoding": "gzip"}, media_type=kind)
            return Response(body, media_type=kind)

        return await self._answering.pool.answer(request, work)
