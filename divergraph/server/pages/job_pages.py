"""Jobs: all of them, one with its progress, and the form that starts a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.jobs.background.job_table import QueuedJob, QueuedState
from divergraph.jobs.background.progress_file import ToldProgress
from divergraph.server.answering import Answering, check_role
from divergraph.server.jobs.requests import ANSWERED_BY_JOBS
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.jobs.shown_words import shown_words, subject
from divergraph.server.pages.links import Links
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.root_files import listed_paths
from divergraph.server.problems import problem_of
from divergraph.server.roots import Roots
from divergraph.server.tokens import User, UserRole
from divergraph.server.uploads.filled_form import FILE
from divergraph.server.uploads.multipart import MEDIA_TYPE
from divergraph.server.uploads.routes import UploadRoutes
from graphstore.cancellation import Cancellation
from graphstore.errors import DivergraphError, InputError

FIELDS = (
    ("golden", "Golden model", True, "its file or folder: ONNX, TensorFlow, Caffe"),
    ("golden-dump", "Golden dump", True, "the folder of its tensors"),
    ("device", "Device model", True, "what the device ran: a graph or an offline model"),
    ("device-dump", "Device dump", True, "the folder of its tensors"),
    ("weights", "Weights", False, "if they are in a file of their own"),
)
"""The paths that the form asks for: option, label, whether it is needed, what is meant."""
_SHOWN = 200
_Fault: TypeAlias = DivergraphError | HTTPException | OSError


class JobPages:
    """Answers ``/jobs``, what is below it, and ``/compare``."""

    def __init__(
        self,
        answering: Answering,
        pages: Pages,
        roots: Roots,
        jobs: JobRoutes,
        uploads: UploadRoutes,
    ) -> None:
        self._answering, self._pages, self._roots = answering, pages, roots
        self._jobs, self._uploads = jobs, uploads

    async def all(self, request: Request) -> Response:
        """The last jobs."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            jobs = self._jobs.table.jobs(most=_SHOWN)
            listed = [
                (
                    replace(job, error=self._roots.told(job.error)),
                    self._jobs.told(job),
                    subject(job, self._roots),
                )
                for job in jobs
            ]
            return self._pages.page(request, "jobs.html", {"jobs": listed})

        return await self._answering.beside.answer(request, work)

    async def one(self, request: Request) -> Response:
        """A job, as far as it is."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            job = self._jobs.table.job(request.path_params["job"])
            values = self._of_job(job, self._jobs.told(job), request.scope["user"])
            return self._pages.page(request, "job.html", values)

        return await self._answering.beside.answer(request, work)

    async def stop(self, request: Request) -> Response:
        """End a job; then its page."""
        check_role(request, UserRole.ANALYST)
        await self._pages.seals.form(request, self._pages.settings.limits)

        def work(_cancellation: Cancellation) -> Response:
            job = self._jobs.end(request.path_params["job"], request.scope["user"])
            return RedirectResponse(Links.of(request).job(job.id), 303)

        return await self._answering.beside.answer(request, work)

    async def compare(self, request: Request) -> Response:
        """The form; or, if it was sent, the page of the job that was begun."""
        check_role(request, UserRole.ANALYST)
        fields: dict[str, str] = {}
        fault: _Fault | None = None
        if request.method == "POST":
            try:
                await self._receive(request, fields)
            except (InputError, HTTPException, OSError) as error:
                fault = error

        def work(_cancellation: Cancellation) -> Response:
            wrong = fault
            if request.method == "POST" and wrong is None:
                try:
                    return self._begun(request, fields)
                except (DivergraphError, HTTPException, OSError) as error:
                    wrong = error
            problem, status = _fault_text(wrong)
            values = {
                "fields": FIELDS,
                "file": FILE,
                "given": fields,
                "problem": problem,
                "roots": list(self._roots.named),
                "anywhere": self._roots.folders is None,
                "paths": listed_paths(self._roots),
                "uploads": self._uploads.of_user(request.scope["user"]),
            }
            return self._pages.page(request, "compare.html", values, status)

        return await self._answering.beside.answer(request, work)

    async def _receive(self, request: Request, fields: dict[str, str]) -> None:
        """Put the form's fields into *fields*; files that come with it become uploads."""
        seals = self._pages.seals
        if request.headers.get("content-type", "").startswith(MEDIA_TYPE):
            fields_asked = [field[0] for field in FIELDS]
            await self._uploads.form(request, fields_asked, partial(seals.check, request), fields)
        else:
            fields |= await seals.form(request, self._pages.settings.limits)

    def _begun(self, request: Request, fields: Mapping[str, str]) -> Response:
        user: User = request.scope["user"]
        options = {name: text.strip() for name, text in fields.items() if text.strip()}
        if "name" in options:
            options["run"] = options.pop("name")
        job = self._jobs.ask("compare", options, user)
        return RedirectResponse(Links.of(request).job(job.id), 303)

    def _of_job(self, job: QueuedJob, progress: ToldProgress, user: User) -> dict[str, Any]:
        return {
            "job": job,
            "told": replace(
                progress,
                problems=tuple((at, self._roots.told(text)) for at, text in progress.problems),
                found=self._roots.told(progress.found),
            ),
            "error": self._roots.told(job.error or progress.failed),
            "asked_of": subject(job, self._roots) if job.command in ANSWERED_BY_JOBS else "",
            "words": shown_words(job, self._roots),
            "is_over": job.state not in (QueuedState.QUEUED, QueuedState.RUNNING),
            "may_stop": user.role.may(UserRole.ADMIN)
            or (user.role.may(UserRole.ANALYST) and user.name == job.owner),
        }


def _fault_text(fault: _Fault | None) -> tuple[str, int]:
    """What is said of a form that cannot be used, and the status of its page."""
    if fault is None:
        return "", 200
    if isinstance(fault, HTTPException):
        return fault.detail, fault.status_code
    if isinstance(fault, OSError):
        problem = problem_of(fault)
        return f"{problem.title}: {problem.detail}", problem.status
    return f"{fault.where}: {fault.what}".removeprefix(": "), 400
