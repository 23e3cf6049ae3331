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
from divergraph.jobs.background.job_files import PROGRESS
from divergraph.jobs.background.job_table import QueuedJob
from divergraph.present.json_text import Json
from divergraph.server.answering import Answering, check_role, document
from divergraph.server.cypher_routes import read_object
from divergraph.server.jobs.requests import options_taken
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.jobs.runner import JobRunner
from divergraph.server.jobs.shown_words import placed_words, shown_words
from divergraph.server.memory_routes import author_of, check_author
from divergraph.server.roots import Roots
from divergraph.server.route_table import VERSION
from divergraph.server.settings import Limits
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError
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
        fields_sent = await self._of_analyst(request)
        note = record_in(fields_sent, Note)

        def work() -> None:
            old_note = next(
                (stored_note for stored_note in self._store.notes() if stored_note.id == note.id),
                None,
            )
            if old_note is not None:
                check_author(request, old_note)
            author = author_of(request) if old_note is None else old_note.author
            self._store.keep_note(replace(note, author=author))

        return await self._done(request, work)

    async def keep_baseline(self, request: Request) -> Response:
        """A run others of its model are held against."""
        fields_sent = await self._of_analyst(request)
        baseline = replace(record_in(fields_sent, Baseline), author=author_of(request))
        return await self._done(request, lambda: self._store.keep_baseline(baseline))

    async def drop_baseline(self, request: Request) -> Response:
        """No baseline for a model."""
        fields_sent = await self._of_analyst(request)
        model = text_field(fields_sent, "name")
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
        fields_sent = await read_object(request, self._limits, FIELDS)
        what = request.path_params["what"]
        packs = "gzip" in request.headers.get("accept-encoding", "")

        def work(cancellation: Cancellation) -> Response:
            body, kind = self._answerer.answer(what, fields_sent, cancellation)
            if packs and len(body) >= _PACKED:
                packed = gzip.compress(body, compresslevel=1)
                return Response(packed, 200, {"Content-Encoding": "gzip"}, media_type=kind)
            return Response(body, media_type=kind)

        return await self._answering.pool.answer(request, work)


_LISTED = 50
_AT_ONCE = 256 << 10
"""Bytes of one job's progress in one answer; what is behind them comes with the next."""


class FollowedJobRoutes:
    """Answers :class:`tui.jobs.served.ServedJobs`."""

    def __init__(
        self,
        answering: Answering,
        limits: Limits,
        roots: Roots,
        jobs: JobRoutes,
        runner: JobRunner,
    ) -> None:
        self._answering, self._limits, self._roots = answering, limits, roots
        self._jobs, self._runner = jobs, runner

    def routes(self) -> list[Route]:
        """The addresses."""
        place = f"{VERSION}/store"
        return [
            Route(f"{place}/jobs", self.all, methods=["POST"]),
            Route(f"{place}/job-log", self.log, methods=["POST"]),
        ]

    async def all(self, request: Request) -> Response:
        """What jobs there may be, and the last jobs, each with what it told behind the bytes
        ``seen`` of it."""
        check_role(request, UserRole.READER)
        fields_sent = await read_object(request, self._limits, {"seen"})
        seen = _seen(fields_sent.get("seen", {}))

        def work(_cancellation: Cancellation) -> Response:
            takes: dict[str, Json] = {name: [*options] for name, options in options_taken().items()}
            jobs = self._jobs.table.jobs(most=_LISTED)
            job_list: list[Json] = [self._told(job, seen.get(job.id, 0)) for job in jobs]
            roots: list[Json] = [*self._roots.named]
            anywhere = self._roots.folders is None
            return document(
                {"roots": roots, "anywhere": anywhere, "takes": takes, "jobs": job_list}
            )

        return await self._answering.pool.answer(request, work)

    async def log(self, request: Request) -> Response:
        """What a job printed."""
        check_role(request, UserRole.READER)
        name = text_field(await read_object(request, self._limits, {"name"}), "name")

        def work(_cancellation: Cancellation) -> Response:
            process = self._runner.shelf.named(self._jobs.table.job(name).id)
            text = "" if process is None else self._runner.shelf.log(process)
            return document({"text": self._roots.told(text)})

        return await self._answering.pool.answer(request, work)

    def _told(self, job: QueuedJob, seen: int) -> dict[str, Json]:
        lines = self._lines(job, seen)
        return {
            "id": job.id,
            "owner": job.owner,
            "words": [job.command, *shown_words(job, self._roots)],
            "placed": len(placed_words(job)),
            "state": job.state.value,
            "asked": job.asked,
            "ended": job.ended,
            "exit_code": job.exit_code,
            "error": self._roots.told(job.error),
            "seen": seen + len(lines),
            "lines": self._roots.told(lines.decode("utf-8", "replace")),
        }

    def _lines(self, job: QueuedJob, seen: int) -> bytes:
        """The whole lines of its progress behind so many bytes."""
        try:
            with (self._runner.shelf.root / job.id / PROGRESS).open("rb") as file:
                file.seek(seen)
                content = file.read(_AT_ONCE)
        except FileNotFoundError:  # it has not begun
            return b""
        return content[: content.rfind(b"\n") + 1]


def _seen(seen: Any) -> dict[str, int]:
    if not isinstance(seen, dict) or not all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 62
        for number in seen.values()
    ):
        raise InputError("a number of bytes for each job is needed", where="seen")
    return seen
