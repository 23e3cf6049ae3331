"""Jobs: all of them, one with its progress, and the forms that start one with files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.jobs.background.job_table import QueuedJob, QueuedState
from divergraph.jobs.background.progress_file import ToldProgress
from divergraph.present.declared_answer import AnswerTable
from divergraph.server.answering import Answering, Endpoint, check_role
from divergraph.server.jobs.requests import ANSWERED_BY_JOBS
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.jobs.shown_words import shown_words, subject
from divergraph.server.pages.diff_table import diff_table
from divergraph.server.pages.file_forms import FileForm
from divergraph.server.pages.links import Links
from divergraph.server.pages.question_page import ROWS
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.root_files import listed_paths
from divergraph.server.problems import problem_of
from divergraph.server.roots import Roots
from divergraph.server.tokens import User, UserRole
from divergraph.server.uploads.filled_form import FILE
from divergraph.server.uploads.multipart import MEDIA_TYPE
from divergraph.server.uploads.routes import UploadRoutes
from graphstore.cancellation import Cancellation
from graphstore.errors import DivergraphError, InputError, UnknownNameError
from graphstore.model import Verdict

_SHOWN = 200
_TOLD = 20
"""Of so many runs of a job the page tells what came of them."""
_Fault: TypeAlias = DivergraphError | HTTPException | OSError


class JobPages:
    """Answers ``/jobs``, what is below it, and forms that begin one."""

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

    def form(self, form: FileForm) -> Endpoint:
        """What answers with *form*; or, if it was sent, with the page of the job that was begun."""

        async def answer(request: Request) -> Response:
            check_role(request, UserRole.ANALYST)
            fields: dict[str, str] = {}
            fault: _Fault | None = None
            if request.method == "POST":
                try:
                    await self._receive(request, form, fields)
                except (InputError, HTTPException, OSError) as error:
                    fault = error

            def work(_cancellation: Cancellation) -> Response:
                return self._form_page(request, form, fields, fault)

            return await self._answering.beside.answer(request, work)

        return answer

    def _form_page(
        self, request: Request, form: FileForm, fields: Mapping[str, str], fault: _Fault | None
    ) -> Response:
        if request.method == "POST" and fault is None:
            try:
                return self._begun(request, form, fields)
            except (DivergraphError, HTTPException, OSError) as error:
                fault = error
        problem, status = _fault_text(fault)
        values = {
            "form": form,
            "file": FILE,
            "given": fields,
            "problem": problem,
            "roots": list(self._roots.named),
            "anywhere": self._roots.folders is None,
            "paths": listed_paths(self._roots),
            "uploads": self._uploads.of_user(request.scope["user"]),
        }
        return self._pages.page(request, "compare.html", values, status)

    async def _receive(self, request: Request, form: FileForm, fields: dict[str, str]) -> None:
        """Put the form's fields into *fields*; files that come with it become uploads."""
        seals = self._pages.seals
        if request.headers.get("content-type", "").startswith(MEDIA_TYPE):
            fields_asked = [field.name for field in form.paths]
            await self._uploads.form(request, fields_asked, partial(seals.check, request), fields)
        else:
            fields |= await seals.form(request, self._pages.settings.limits)

    def _begun(self, request: Request, form: FileForm, fields: Mapping[str, str]) -> Response:
        user: User = request.scope["user"]
        options = {name: text.strip() for name, text in fields.items() if text.strip()}
        if "name" in options:
            options["run"] = options.pop("name")
        job = self._jobs.ask(form.command, options, user)
        return RedirectResponse(Links.of(request).job(job.id), 303)

    def _pairs(self, job: QueuedJob) -> AnswerTable | None:
        """What a `diff` printed; a file of a job that is killed may be cut."""
        text = self._jobs.printed(job) if job.command == "diff" else b""
        return diff_table(json.loads(text)) if text and job.exit_code in (0, 1) else None

    def _verdicts(self, kept: Sequence[str]) -> Mapping[str, MadeRun]:
        """What came of those *kept* that are runs, and are still there."""
        store, made = self._answering.store, dict[str, MadeRun]()
        for name in kept[:_TOLD]:
            try:
                verdict, origins = store.run(name).verdict, store.origins(name)
            except UnknownNameError:
                continue
            made[name] = MadeRun(verdict, origins[0].op if origins else "")
        return made

    def _of_job(self, job: QueuedJob, progress: ToldProgress, user: User) -> dict[str, Any]:
        return {
            "job": job,
            "verdicts": self._verdicts(progress.kept),
            "pairs": self._pairs(job),
            "rows": ROWS,
            "nowhere": lambda *_: "",
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


class MadeRun(NamedTuple):
    """What came of a run, and its first origin; "" without one."""

    verdict: Verdict
    origin: str


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
