"""Which address is which page."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from divergraph.server.answering import Answering
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.login.people import KnownPeople
from divergraph.server.pages.cypher_page import CypherPage
from divergraph.server.pages.file_forms import COMPARE, DIFF
from divergraph.server.pages.graph_page import ASKED, GraphPage
from divergraph.server.pages.job_pages import JobPages
from divergraph.server.pages.links import Links
from divergraph.server.pages.login_page import LoginPage
from divergraph.server.pages.op_page import SingleOpPage
from divergraph.server.pages.part_page import PartPage
from divergraph.server.pages.question_page import QuestionPage
from divergraph.server.pages.rendering import ASSETS, Pages, asset
from divergraph.server.pages.run_page import RunPage
from divergraph.server.pages.runs_page import RunsPage
from divergraph.server.pages.share_page import SharePage
from divergraph.server.roots import Roots
from divergraph.server.uploads.routes import UploadRoutes

_YEAR = "public, max-age=31536000, immutable"


def page_routes(
    answering: Answering,
    pages: Pages,
    roots: Roots,
    people: KnownPeople,
    jobs: JobRoutes | None,
    uploads: UploadRoutes | None,
) -> list[Route]:
    """The addresses of all pages; without jobs or links those are left out."""
    login, shares = LoginPage(pages, people.sessions), people.shares
    op, questions = SingleOpPage(answering, pages, roots), QuestionPage(answering, pages, jobs)
    graph, runs = GraphPage(answering, pages, jobs), RunsPage(answering, pages)
    cypher = CypherPage(answering, pages)
    routes = [
        Route("/", runs.page, methods=["GET"]),
        Route("/compare-runs", runs.pair, methods=["GET"]),
        Route("/runs", _to_first, methods=["GET"]),
        Route("/runs/{run}", RunPage(answering, pages, roots, shares).page, methods=["GET"]),
        Route("/runs/{run}/op", op.page, methods=["GET"]),
        Route("/runs/{run}/op", op.note, methods=["POST"]),
        Route(
            "/runs/{run}/part",
            PartPage(answering, pages, roots, jobs).page,
            methods=["GET", "POST"],
        ),
        Route("/runs/{run}/graph", graph.page, methods=["GET"]),
        Route("/runs/{run}/graph/ops", graph.found, methods=["GET"]),
        Route("/runs/{run}/graph/part", graph.part, methods=["GET"]),
        *(
            Route(f"/runs/{{run}}/graph/{name}", graph.asks(kind), methods=["GET"])
            for name, kind in ASKED.items()
        ),
        Route("/ask/query", cypher.page, methods=["GET"]),
        Route("/ask/query/words", cypher.words, methods=["GET"]),
        Route("/ask/{question}", questions.page, methods=["GET"]),
        Route("/runs/{run}/ask/{question}", questions.page, methods=["GET"]),
        Route("/runs/{run}/ask/{question}", questions.begin, methods=["POST"]),
        Route("/login", login.page, methods=["GET", "POST"]),
        Route("/logout", login.logout, methods=["POST"]),
        Route("/static/{name}", _asset, methods=["GET"]),
    ]
    if shares is not None:
        change = SharePage(answering, pages, shares).change
        routes.append(Route("/runs/{run}/shares", change, methods=["POST"]))
    if jobs is not None and uploads is not None:
        job = JobPages(answering, pages, roots, jobs, uploads)
        routes += [
            Route("/jobs", job.all, methods=["GET"]),
            Route("/jobs/{job}", job.one, methods=["GET"]),
            Route("/jobs/{job}/stop", job.stop, methods=["POST"]),
            *(
                Route(f"/{form.command}", job.form(form), methods=["GET", "POST"])
                for form in (COMPARE, DIFF)
            ),
        ]
    return routes


async def _to_first(request: Request) -> Response:
    return RedirectResponse(Links.of(request).runs(), 308)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404)
    text, kind = asset(name)
    return Response(text, headers={"Cache-Control": _YEAR}, media_type=kind)
