"""Notes and baselines over HTTP: what a team says is written under the name of who asks."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from divergraph.api.cypher_in_json import text_field
from divergraph.ask.memory.authors import author_name
from divergraph.ask.memory.baselines import drop_baseline, set_baseline
from divergraph.ask.memory.notes import add_note, edit_note, find_note
from divergraph.present.declared_answer import answer_json
from divergraph.present.json_text import Json
from divergraph.server.answering import Answering, check_role, document, user_of
from divergraph.server.cypher_routes import read_object
from divergraph.server.route_table import VERSION
from divergraph.server.settings import Limits
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError
from graphstore.model import Note

_NOTE_FIELDS = {"run", "op", "text", "output", "bookmark"}


class MemoryRoutes:
    """Analysts write notes and set baselines; a note is changed by who wrote it, or an admin."""

    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering = answering
        self._limits = limits

    def routes(self) -> list[Route]:
        """The addresses that change something."""
        note, baseline = f"{VERSION}/notes/{{note}}", f"{VERSION}/runs/{{run}}/baseline"
        return [
            Route(f"{VERSION}/notes", self.add, methods=["POST"]),
            Route(note, self.edit, methods=["PUT"]),
            Route(note, self.delete, methods=["DELETE"]),
            Route(baseline, self.set, methods=["PUT"]),
            Route(baseline, self.drop, methods=["DELETE"]),
        ]

    async def add(self, request: Request) -> Response:
        """A new note: ``{"run": ..., "op": ..., "text": ...}``."""
        check_role(request, UserRole.ANALYST)
        fields_sent = await read_object(request, self._limits, _NOTE_FIELDS)
        run, op = text_field(fields_sent, "run"), text_field(fields_sent, "op")
        text, output = fields_sent.get("text", ""), fields_sent.get("output")
        bookmark = fields_sent.get("bookmark", False)
        if not isinstance(text, str):
            raise InputError("a text is needed", where="text")
        if not (output is None or (isinstance(output, int) and not isinstance(output, bool))):
            raise InputError("it must be a whole number", where="output")
        if not isinstance(bookmark, bool):
            raise InputError("it must be true or false", where="bookmark")
        author, store = author_of(request), self._answering.store
        return await self._answer(
            request,
            lambda: answer_json(
                add_note(store, run, op, text, author, output=output, bookmark=bookmark)
            ),
        )

    async def edit(self, request: Request) -> Response:
        """Another text, ``{"text": ...}``, for a note."""
        check_role(request, UserRole.ANALYST)
        text = text_field(await read_object(request, self._limits, {"text"}), "text")
        note = request.path_params["note"]

        def work() -> dict[str, Json]:
            self._own(request, note)
            return answer_json(edit_note(self._answering.store, note, text))

        return await self._answer(request, work)

    async def delete(self, request: Request) -> Response:
        """A note goes."""
        check_role(request, UserRole.ANALYST)
        note = request.path_params["note"]

        def work() -> dict[str, Json]:
            self._answering.store.delete_note(self._own(request, note).id)
            return {"deleted": note}

        return await self._answer(request, work)

    async def set(self, request: Request) -> Response:
        """The run is the baseline of its model."""
        check_role(request, UserRole.ANALYST)
        run, author = request.path_params["run"], author_of(request)
        return await self._answer(
            request, lambda: answer_json(set_baseline(self._answering.store, run, author))
        )

    async def drop(self, request: Request) -> Response:
        """The model of the run has no baseline."""
        check_role(request, UserRole.ANALYST)
        run = request.path_params["run"]
        return await self._answer(
            request, lambda: answer_json(drop_baseline(self._answering.store, run))
        )

    async def _answer(self, request: Request, work: Callable[[], dict[str, Json]]) -> Response:
        def answer(_cancellation: Cancellation) -> Response:
            return document(work())

        return await self._answering.pool.answer(request, answer)

    def _own(self, request: Request, note: str) -> Note:
        """The note of this id, if whoever asks may change it.

        Raises:
            UnknownNameError: there is none.
            HTTPException: somebody else wrote it.
        """
        own_note = find_note(self._answering.store, note)
        check_author(request, own_note)
        return own_note


def check_author(request: Request, note: Note) -> None:
    """Return if whoever asks may change *note*.

    Raises:
        HTTPException: somebody else wrote it.
    """
    if note.author != author_of(request) and not user_of(request).role.may(UserRole.ADMIN):
        raise HTTPException(403, f"{note.author} wrote it: this needs the role admin")


def author_of(request: Request) -> str:
    """Whoever asks; without tokens that is the user of this machine."""
    return user_of(request).name or author_name()
