"""A part of a run's model between two marked ops: what it is, and its files to take away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from divergraph.api.runs.compared_run import ComparedRun
from divergraph.api.runs.model_parts import ModelParts
from divergraph.outcomes import outcome_of_error
from divergraph.server.answering import Answering, check_role
from divergraph.server.jobs.packed import packed
from divergraph.server.pages.links import Links
from divergraph.server.pages.rendering import Pages
from divergraph.server.roots import Roots
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import DivergraphError, InputError

T = TypeVar("T")
_OPS = 200


class PartPage:
    """Answers ``/runs/NAME/part?start=OP&end=OP``."""

    def __init__(self, answering: Answering, pages: Pages, roots: Roots) -> None:
        self._answering, self._pages, self._roots = answering, pages, roots

    async def page(self, request: Request) -> Response:
        """What the part is; or, if its form was sent, the part as a ZIP file."""
        check_role(request, UserRole.ANALYST)
        exports = request.method == "POST"
        if exports:
            await self._pages.seals.form(request, self._pages.settings.limits)

        def work(_cancellation: Cancellation) -> Response:
            links, run = Links.of(request), request.path_params["run"]
            problem, status = "", 200
            if exports:
                try:
                    return self._exported(run, links)
                except DivergraphError as error:
                    problem, status = error.what, 400
                except HTTPException as error:
                    problem, status = error.detail, error.status_code
            return self._page(request, run, links, problem, status)

        pool = self._answering.files if exports else self._answering.pool
        return await pool.answer(request, work)

    def _page(
        self, request: Request, run: str, links: Links, problem: str, status: int
    ) -> Response:
        store = self._answering.store
        part, why_not = None, ""
        store.run(run)
        if links.start and links.end:
            parts = ModelParts.stored(_asks(store), run)
            try:
                part = parts.select([links.start], [links.end])
                why_not = parts.why_not_written
            except InputError as error:  # other marks may do
                problem = f"{error.what}; {error.hint}" if error.hint else error.what
                status = outcome_of_error(error).status
        values = {
            "name": run,
            "part": part,
            "ops": [] if part is None else sorted(part.chosen)[:_OPS],
            "why_not": why_not,
            "problem": problem,
        }
        return self._pages.page(request, "part.html", values, status, links)

    def _exported(self, name: str, links: Links) -> Response:
        run = ComparedRun(name, store=self._answering.store)
        self._roots.check(run.files.values())

        def written(place: Path) -> Path:
            found = run.submodel([links.start], [links.end], place)
            if found.path is None:
                raise InputError("; ".join(each.sentence for each in found.refused))
            return found.path

        return packed(written)


def _asks(store: GraphStore) -> Callable[[Callable[[GraphStore], T]], T]:
    def ask(question: Callable[[GraphStore], T]) -> T:
        return question(store)

    return ask
