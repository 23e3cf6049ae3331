"""Uploads over HTTP: sent, listed and deleted; jobs name them as paths."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from divergraph.jobs.background.job_table import JobTable, QueuedState
from divergraph.present.json_text import Json
from divergraph.server.answering import Answering, check_role, document, user_of
from divergraph.server.asking import ClientGoneError
from divergraph.server.parameters import plain_values
from divergraph.server.roots import Roots, path_within
from divergraph.server.settings import UPLOADS, Limits
from divergraph.server.tokens import User, UserRole
from divergraph.server.uploads.filled_form import FilledForm
from divergraph.server.uploads.multipart import MultipartReader
from divergraph.server.uploads.quarantine import NewUpload, Quarantine, Upload
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError

_BLOCK = 1 << 20


class UploadRoutes:
    """What users send, and what paths of jobs mean."""

    def __init__(
        self, answering: Answering, quarantine: Quarantine, table: JobTable, limits: Limits
    ) -> None:
        self._answering, self._quarantine, self._table = answering, quarantine, table
        self._limits = limits

    async def add(self, request: Request) -> Response:
        """Take the body as a file called ``name``; with ``unpack=true`` as an archive of files."""
        check_role(request, UserRole.ANALYST)
        params = plain_values(request.query_params.multi_items(), ("name",), ("unpack",))
        if params["unpack"] not in ("", "true", "false"):
            raise InputError("it is true or false", where="unpack")
        user, size = user_of(request), request.headers.get("content-length")
        await to_thread.run_sync(self.tidy)
        begin = partial(self._quarantine.begin, user.name, params["name"])
        new = await to_thread.run_sync(begin, None if size is None else int(size))
        async with _whole_or_not(new):
            await self._receive(request, new)
            finish = partial(new.finish, params["unpack"] == "true")
            upload: Upload = await self._answering.beside.answer(request, finish)
        return document(_shape(upload), {"Location": f"/v1/uploads/{upload.id}"}, 201)

    async def form(
        self,
        request: Request,
        field_names: Collection[str],
        check: Callable[[str], None],
        texts: dict[str, str],
    ) -> None:
        """Read a form: its fields go to *texts* as they come; files for *field_names* become
        uploads of whoever asks. *check* is told its seal.

        Raises:
            HTTPException: it is none of ours, too large, or comes too slowly.
            InputError: it is no form, or an archive in it is refused.
            OSError: the disk is full.
        """
        check_role(request, UserRole.ANALYST)
        await to_thread.run_sync(self.tidy)
        reader = MultipartReader(request.headers.get("content-type", ""))
        owner, most_text = user_of(request).name, self._limits.body
        filled = FilledForm(self._quarantine, owner, field_names, check, texts, most_text)
        async with _whole_or_not(filled):
            async for part in received(request, self._limits):
                for event in reader.events(part):
                    await filled.take(event)
            reader.finish()
            await self._answering.beside.answer(request, filled.finish)

    async def all(self, request: Request) -> Response:
        """One's own uploads; of an admin all."""
        check_role(request, UserRole.ANALYST)
        user = user_of(request)

        def work(_cancellation: Cancellation) -> Response:
            return document({"uploads": [_shape(upload) for upload in self.of_user(user)]})

        return await self._answering.beside.answer(request, work)

    def of_user(self, user: User) -> list[Upload]:
        """The uploads of *user*; of an admin all."""
        self.tidy()
        return [upload for upload in self._quarantine.kept() if _may(user, upload)]

    async def one(self, request: Request) -> Response:
        """One upload."""
        check_role(request, UserRole.ANALYST)
        upload = await to_thread.run_sync(self._mine, request)
        return document(_shape(upload))

    async def delete(self, request: Request) -> Response:
        """Forget an upload, if no job needs it."""
        check_role(request, UserRole.ANALYST)

        def work(_cancellation: Cancellation) -> Response:
            upload = self._mine(request)
            if self._in_use(self._quarantine.folder(upload)):
                raise HTTPException(409, "a job needs it; stop that first")
            self._quarantine.remove(upload)
            return document({"deleted": upload.id})

        return await self._answering.beside.answer(request, work)

    def tidy(self) -> None:
        """Forget what is past its time, and what a server that was killed left."""
        self._quarantine.expire(self._in_use)

    def path(self, roots: Roots, user: User, text: str) -> Path:
        """The file or folder that *text* names for *user*: in a root, or of their uploads.

        Raises:
            HTTPException: it lies in none, or is somebody else's.
            UnknownNameError: there is no such upload.
        """
        root, sign, below = text.partition(":")
        if root != UPLOADS or not sign:
            return roots.path(text)
        name, _, rest = below.partition("/")
        upload = self._quarantine.named(name)
        if not _may(user, upload):
            raise HTTPException(403, "it is somebody else's")
        return path_within(self._quarantine.folder(upload).resolve(), rest)

    async def _receive(self, request: Request, new: NewUpload) -> None:
        """Write the body.

        Raises:
            HTTPException: it is too large or comes too slowly.
        """
        waiting = bytearray()
        async for part in received(request, self._limits):
            waiting += part
            if len(waiting) >= _BLOCK:
                await to_thread.run_sync(new.write, bytes(waiting))
                waiting.clear()
        await to_thread.run_sync(new.write, bytes(waiting))

    def _mine(self, request: Request) -> Upload:
        upload = self._quarantine.named(request.path_params["upload"])
        if not _may(user_of(request), upload):
            raise HTTPException(403, "it is somebody else's")
        return upload

    def _in_use(self, folder: Path) -> bool:
        """Whether a job that is not over names a file in *folder*."""
        open_states = (QueuedState.QUEUED, QueuedState.RUNNING)
        jobs = (job for state in open_states for job in self._table.jobs(state))
        return any(str(folder.resolve()) in word for job in jobs for word in job.words)


@asynccontextmanager
async def _whole_or_not(new: NewUpload | FilledForm) -> AsyncIterator[None]:
    """Leave nothing of *new* if what is done with it fails."""
    try:
        yield
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(new.abandon)
        if isinstance(error, ClientDisconnect):
            raise ClientGoneError from error
        raise


def _may(user: User, upload: Upload) -> bool:
    return upload.owner == user.name or user.role.may(UserRole.ADMIN)


def _shape(upload: Upload) -> dict[str, Json]:
    return {
        "id": upload.id,
        "path": upload.path,
        "name": upload.name,
        "owner": upload.owner,
        "files": upload.files,
        "bytes": upload.bytes,
        "sha256": upload.sha256,
        "created": upload.created,
        "expires": upload.expires,
    }


async def received(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    """The parts of the body of *request*, as fast as the client must send it.

    Raises:
        HTTPException: it comes too slowly.
        ClientDisconnect: the client has gone.
    """
    began, size = time.monotonic(), 0
    stream, rate = request.stream(), limits.uploads.rate
    while True:
        try:
            with anyio.fail_after(limits.body_seconds):
                part = await anext(stream, None)
        except TimeoutError as error:
            raise HTTPException(408, "the body took too long") from error
        if part is None:
            return
        size += len(part)
        if time.monotonic() - began > limits.body_seconds + size / rate:
            raise HTTPException(408, f"the body comes at less than {rate} bytes a second")
        yield part
