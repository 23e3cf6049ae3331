"""The jobs of the server as the terminal UI elsewhere follows them: all of them in one answer."""

from __future__ import annotations

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
from divergraph.server.roots import Roots
from divergraph.server.route_table import VERSION
from divergraph.server.settings import Limits
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError

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
        asked = await read_object(request, self._limits, {"seen"})
        seen = _seen(asked.get("seen", {}))

        def work(_cancellation: Cancellation) -> Response:
            takes: dict[str, Json] = {name: [*given] for name, given in options_taken().items()}
            jobs = self._jobs.table.jobs(most=_LISTED)
            told: list[Json] = [self._told(job, seen.get(job.id, 0)) for job in jobs]
            roots: list[Json] = [*self._roots.named]
            anywhere = self._roots.folders is None
            return document({"roots": roots, "anywhere": anywhere, "takes": takes, "jobs": told})

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
                found = file.read(_AT_ONCE)
        except FileNotFoundError:  # it has not begun
            return b""
        return found[: found.rfind(b"\n") + 1]


def _seen(given: Any) -> dict[str, int]:
    if not isinstance(given, dict) or not all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 62
        for each in given.values()
    ):
        raise InputError("a number of bytes for each job is needed", where="seen")
    return given
