"""Jobs over HTTP: asked for, listed, followed and stopped."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from divergraph.jobs.background.job_files import ANSWER, PART, PROGRESS
from divergraph.jobs.background.job_table import QueuedJob, QueuedState
from divergraph.jobs.background.progress_file import ProgressReader, ToldProgress
from divergraph.jobs.background.shelf import store_key
from divergraph.present.json_text import Json
from divergraph.server.answering import Answering, check_role, document, user_of
from divergraph.server.cypher_routes import read_object
from divergraph.server.jobs.packed import packed
from divergraph.server.jobs.requests import JobRequest, request_of
from divergraph.server.jobs.runner import JobRunner
from divergraph.server.roots import Roots
from divergraph.server.settings import ServerSettings
from divergraph.server.tokens import User, UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError, NotDoneError

_LOOK_SECONDS = 0.25
_QUIET_SECONDS = 15.0
"""So often a stream says that it lives, or a proxy would close it."""
_READERS = 2000
"""Twice as many as jobs are listed."""
_EVENT = re.compile(r"[0-9]{1,18}")
"""An event's number: where it ends in a file."""
_OVER = (QueuedState.ENDED, QueuedState.STOPPED, QueuedState.LOST)


class JobRoutes:
    """Jobs of the users of one server; *place* says what a path means for a user."""

    def __init__(
        self,
        answering: Answering,
        settings: ServerSettings,
        runner: JobRunner,
        roots: Roots,
        place: Callable[[User, str], Path],
    ) -> None:
        self._answering, self._runner, self._place = answering, runner, place
        self._roots = roots
        self._store, self._limits = store_key(settings.store), settings.limits
        self.table, self._folder = runner.table, runner.shelf.root
        self._readers: OrderedDict[str, ProgressReader] = OrderedDict()
        self._reading = threading.Lock()

    async def add(self, request: Request) -> Response:
        """Ask for a job, ``{"command": ..., "options": {...}}``; 202 with its state."""
        check_role(request, UserRole.ANALYST)
        fields_sent = await read_object(request, self._limits, {"command", "options"})
        options = fields_sent.get("options", {})
        if not isinstance(options, dict):
            raise InputError("an object is needed", where="options")
        user = user_of(request)
        wish = await to_thread.run_sync(self._wish, fields_sent.get("command"), options, user)

        def work(_cancellation: Cancellation) -> Response:
            job = self._queued(wish, user.name)
            return document(self._shape(job), {"Location": f"/v1/jobs/{job.id}"}, 202)

        return await self._answering.beside.answer(request, work)

    async def all(self, request: Request) -> Response:
        """The last jobs, newest first; with ``parent`` the children of that one, in order."""
        check_role(request, UserRole.READER)
        parent = request.query_params.get("parent")

        def work(_cancellation: Cancellation) -> Response:
            if parent is None:
                jobs = self.table.jobs()
            else:
                jobs = self.table.children(self.table.job(parent).id)
            return document({"jobs": [self._shape(job) for job in jobs]})

        return await self._answering.beside.answer(request, work)

    async def one(self, request: Request) -> Response:
        """One job, and how far it is."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            return document(self._shape(self.table.job(request.path_params["job"])))

        return await self._answering.beside.answer(request, work)

    async def answer(self, request: Request) -> Response:
        """What its command printed with ``--json``."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            job = self.table.job(request.path_params["job"])
            text = self.printed(job)
            if not text:
                raise NotDoneError(f"the job has no answer: it is {job.state.value}")
            return Response(text, media_type="application/json")

        return await self._answering.beside.answer(request, work)

    async def part(self, request: Request) -> Response:
        """What it wrote, as a ZIP file."""
        check_role(request, UserRole.ANALYST)

        def work(_cancellation: Cancellation) -> Response:
            job = self.table.job(request.path_params["job"])
            place = self._folder / job.id / PART
            # hidden is what a process that was killed had not finished
            paths = sorted(place.glob("[!.]*")) if job.state in _OVER else []
            if not paths:
                raise NotDoneError(f"the job has written nothing: it is {job.state.value}")
            return packed(lambda _place: paths[-1])

        return await self._answering.files.answer(request, work)

    async def stop(self, request: Request) -> Response:
        """End a job of one's own, or as an admin any."""
        check_role(request, UserRole.ANALYST)
        user = user_of(request)

        def work(_cancellation: Cancellation) -> Response:
            return document({"stopped": self.end(request.path_params["job"], user).id})

        return await self._answering.beside.answer(request, work)

    async def events(self, request: Request) -> Response:
        """What a job tells, line by line as it does, as server-sent events; with
        ``Last-Event-ID`` what came behind that one."""
        check_role(request, UserRole.READER)
        name = request.path_params["job"]
        await to_thread.run_sync(self.table.job, name)
        seen = request.headers.get("last-event-id", "0")
        if not _EVENT.fullmatch(seen):
            raise InputError("an event of this server has a number", where="Last-Event-ID")
        stream = self._told(name, int(seen))
        return StreamingResponse(stream, media_type="text/event-stream")

    def ask(self, command: Any, options: Mapping[str, Any], user: User) -> QueuedJob:
        """Have *command* run for *user*, an analyst, with *options* by their public names.

        Raises:
            InputError: no such command or option.
            HTTPException: *user* may not have that, or not now.
        """
        return self._queued(self._wish(command, options, user), user.name)

    def end(self, name: str, user: User) -> QueuedJob:
        """End the job *name*, one of *user*'s own, or as an admin any.

        Raises:
            UnknownNameError: there is none.
            HTTPException: it is somebody else's.
        """
        job = self.table.job(name)
        if job.owner != user.name and not user.role.may(UserRole.ADMIN):
            raise HTTPException(403, "it is somebody else's")
        self._runner.stop(job)
        return job

    def printed(self, job: QueuedJob) -> bytes:
        """What its command printed with ``--json``, once it is over."""
        path = self._folder / job.id / ANSWER
        return path.read_bytes() if job.state in _OVER and path.exists() else b""

    def told(self, job: QueuedJob) -> ToldProgress:
        """How far a job is; what was read of its file once is not read again."""
        name = job.id
        with self._reading:
            reader = self._readers.pop(name, None) or ProgressReader(self._progress(name))
            self._readers[name] = reader
            if len(self._readers) > _READERS:
                self._readers.popitem(last=False)
            return reader.look()

    def _wish(self, command: Any, options: Mapping[str, Any], user: User) -> JobRequest:
        wish = request_of(command, options, partial(self._place, user), self._store)
        if wish.replaces and not user.role.may(UserRole.ADMIN):
            raise HTTPException(403, f"this needs the role {UserRole.ADMIN.value}")
        return wish

    def _queued(self, wish: JobRequest, owner: str) -> QueuedJob:
        for name in wish.runs:
            self._answering.check_files(name)
        waiting = [job for job in self.table.jobs(QueuedState.QUEUED) if job.owner == owner]
        if len(waiting) >= self._limits.waiting:
            raise HTTPException(429, f"{len(waiting)} of your jobs wait already")
        return self._runner.add(owner, wish.command, wish.words)

    def _shape(self, job: QueuedJob) -> dict[str, Json]:
        progress = self.told(job)
        stage = progress.stages[-1] if progress.stages else None
        return {
            "id": job.id,
            "command": job.command,
            "owner": job.owner,
            "state": job.state.value,
            "asked": job.asked,
            "started": job.started,
            "ended": job.ended,
            "attempts": job.attempts,
            "exit_code": job.exit_code,
            "error": self._roots.told(job.error or progress.failed),
            "stage": "" if stage is None else stage.text,
            "done": 0 if stage is None else stage.done,
            "total": None if stage is None else stage.total,
            "problems": len(progress.problems) + progress.more_problems,
            "made": list(progress.kept),
            "parent": job.parent or None,
        }

    def _progress(self, name: str) -> Path:
        return self._folder / name / PROGRESS

    async def _told(self, name: str, seen: int) -> AsyncIterator[bytes]:
        quiet = 0.0
        while True:
            job = await to_thread.run_sync(self.table.job, name)  # before the last look
            lines = await to_thread.run_sync(_lines_behind, self._progress(name), seen)
            for line in lines:
                seen += len(line)
                line_text = self._roots.told(line.decode("utf-8", "replace").rstrip("\n"))
                yield b"id: %d\ndata: %s\n\n" % (seen, line_text.encode())
            if job.state in _OVER:
                yield b"event: end\ndata: %s\n\n" % job.state.value.encode()
                return
            quiet = 0.0 if lines else quiet + _LOOK_SECONDS
            if quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield b": it goes on\n\n"
            await anyio.sleep(_LOOK_SECONDS)


def _lines_behind(path: Path, seen: int) -> list[bytes]:
    """The whole lines of a file behind so many bytes; none while it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(seen)
            return [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    except FileNotFoundError:
        return []
