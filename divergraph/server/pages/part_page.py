"""A part of a run's model, or of an imported graph, between two marked ops: what it is, and its
files to take away, for which a job runs a graph's model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.api.answers import Selection
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.ask.model_parts import ModelParts, asking, is_graph
from divergraph.outcomes import outcome_of_error
from divergraph.server.answering import Answering, check_role
from divergraph.server.jobs.packed import packed
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.pages.links import Links
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.root_files import listed_paths
from divergraph.server.roots import Roots
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import DivergraphError, InputError

_OPS = 200
FIELDS = (
    ("random", "Seed", "a number: inputs are made up by it", False),
    ("inputs", "Input", "NAME=PATH: an input of the model, as .npy", False),
    ("golden-dump", "Golden dump", "the folder of its tensors, if it was run elsewhere", True),
    ("device", "Device model", "its graph or offline model; with the device's dump", True),
    ("device-dump", "Device dump", "the folder of its tensors: what the device was fed", True),
    ("weights", "Weights", "if they are in a file of their own", True),
)
"""What the model of a graph is run on: option, label, what is meant, whether it is a path. One of
them is enough, but for a device's two."""


class PartPage:
    """Answers ``/runs/NAME/part?start=OP&end=OP``."""

    def __init__(
        self, answering: Answering, pages: Pages, roots: Roots, jobs: JobRoutes | None
    ) -> None:
        self._answering, self._pages, self._roots = answering, pages, roots
        self._jobs = jobs

    async def page(self, request: Request) -> Response:
        """What the part is; or, if its form was sent, the part as a ZIP file."""
        check_role(request, UserRole.ANALYST)
        exports = request.method == "POST"
        form: Mapping[str, str] = {}
        if exports:
            form = await self._pages.seals.form(request, self._pages.settings.limits)

        def work(_cancellation: Cancellation) -> Response:
            links, run = Links.of(request), request.path_params["run"]
            problem, status = "", 200
            if exports:
                try:
                    if is_graph(self._answering.store, run):
                        return self._begun(request, run, links, form)
                    return self._exported(run, links)
                except DivergraphError as error:
                    problem, status = error.what, 400
                except HTTPException as error:
                    problem, status = error.detail, error.status_code
            return self._page(request, run, links, problem, status, form)

        pool = self._answering.files if exports else self._answering.pool
        return await pool.answer(request, work)

    def _page(
        self,
        request: Request,
        run: str,
        links: Links,
        problem: str,
        status: int,
        form: Mapping[str, str],
    ) -> Response:
        store = self._answering.store
        part, why_not = None, ""
        alone = is_graph(store, run)
        if not alone:
            store.run(run)
        if links.start and links.end:
            try:
                part, why_not = marked_part(store, run, links.start, links.end)
            except InputError as error:  # other marks may do
                problem = f"{error.what}; {error.hint}" if error.hint else error.what
                status = outcome_of_error(error).status
        values = {
            "name": run,
            "part": part,
            "ops": [] if part is None else sorted(part.chosen)[:_OPS],
            "why_not": why_not,
            "problem": problem,
            "is_run": not alone,
            "may_ask": self._jobs is not None,
            "fields": FIELDS,
            "given": form,
            "roots": list(self._roots.named),
            "paths": listed_paths(self._roots) if alone else (),
            "may_be_cut": part is not None and _may_be_cut(part, alone=alone),
        }
        return self._pages.page(request, "part.html", values, status, links)

    def _begun(
        self, request: Request, graph: str, links: Links, form: Mapping[str, str]
    ) -> Response:
        """The page of the job that runs the model and writes the part."""
        if self._jobs is None:
            raise InputError("this server runs no jobs", hint="divergraph submodel on its machine")
        options: dict[str, object] = {"run": graph, "start": [links.start], "end": [links.end]}
        options |= {name: text for name, *_ in FIELDS if (text := form.get(name, "").strip())}
        job = self._jobs.ask("submodel", options, request.scope["user"])
        return RedirectResponse(links.job(job.id), 303)

    def _exported(self, name: str, links: Links) -> Response:
        run = ComparedRun(name, store=self._answering.store)
        self._roots.check(run.files.values())

        def written(place: Path) -> Path:
            submodel = run.submodel([links.start], [links.end], place)
            if submodel.path is None:
                raise InputError("; ".join(refusal.sentence for refusal in submodel.refused))
            return submodel.path

        return packed(written)


def marked_part(store: GraphStore, run: str, start: str, end: str) -> tuple[Selection, str]:
    """The part of a run's golden model, or of an imported graph, between two ops, and why parts of
    that model cannot be written; empty if they can.

    Raises:
        UnknownNameError: no such run or graph.
        InputError: an op that neither graph has, or that stands for no original.
    """
    find = ModelParts.of_graph if is_graph(store, run) else ModelParts.stored
    parts = find(asking(store), run)
    return parts.select([start], [end]), parts.why_not_written


def _may_be_cut(part: Selection, *, alone: bool) -> bool:
    """Whether it may; shapes that a graph does not say are known once its model was run."""
    return bool(part.chosen) and (part.lacks_only_forms if alone else not part.refused)
