"""The server as an ASGI application: addresses, and what lies around all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from divergraph.jobs.background.job_table import JobTable
from divergraph.jobs.background.shelf import store_key
from divergraph.server.access import Access
from divergraph.server.answering import Answering
from divergraph.server.asking import AskingPool, ClientGoneError
from divergraph.server.changing import ChangingRoutes
from divergraph.server.cypher_routes import CypherRoutes
from divergraph.server.downloads import DownloadRoutes
from divergraph.server.figures import RequestFigures
from divergraph.server.health import HealthRoutes
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.jobs.runner import JobRunner
from divergraph.server.login.forms import FormSeals
from divergraph.server.login.people import KnownPeople
from divergraph.server.login.sessions import Sessions
from divergraph.server.login.shares import ShareFile
from divergraph.server.memory_routes import MemoryRoutes
from divergraph.server.openapi import openapi
from divergraph.server.pages.doors import Doors, wants_page
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.routes import page_routes
from divergraph.server.problems import problem_of
from divergraph.server.remote_routes import FollowedJobRoutes, StoreRoutes
from divergraph.server.roots import Roots
from divergraph.server.route_table import VERSION, question_routes
from divergraph.server.settings import UPLOADS, Limits, ServerSettings
from divergraph.server.tokens import TokenFile
from divergraph.server.uploads.quarantine import Quarantine
from divergraph.server.uploads.routes import UploadRoutes
from graphstore.cancellation import CancelledError
from graphstore.contract import GraphStore
from graphstore.errors import DivergraphError, StoreError
from graphstore.private_folder import private_folder

_CLIENT_GONE = 499
"""What access logs show of a client that did not wait; nobody reads the answer."""


def make_app(settings: ServerSettings, store: GraphStore) -> ASGIApp:
    """The application that answers about *store*, which it closes at its end."""
    pool, roots = AskingPool(settings.limits.workers), Roots.of(settings)
    limits = settings.limits
    files, side_pool = AskingPool(limits.files), AskingPool(limits.workers)
    answering = Answering(store, pool, files, side_pool, roots, limits)
    figures = RequestFigures()
    runner = None if settings.state is None else _runner_of(settings, settings.state)
    uploads = None if runner is None else _uploads(answering, settings, runner)
    jobs = None
    if runner is not None and uploads is not None:
        jobs = JobRoutes(answering, settings, runner, roots, partial(uploads.path, roots))
    followed: list[Route] = []
    if runner is not None and jobs is not None:
        followed = FollowedJobRoutes(answering, limits, roots, jobs, runner).routes()
    tokens = TokenFile(settings.tokens)
    shares = None if settings.shares is None else ShareFile(settings.shares)
    people = KnownPeople(tokens, Sessions(tokens, settings.sessions), shares)
    pages = Pages(settings, FormSeals())
    doors = Doors(pages)

    async def failed(request: Request, error: Exception) -> Response:
        return _failed(request, error, doors)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        if runner is not None and uploads is not None:
            runner.start()
            await to_thread.run_sync(uploads.tidy)
        yield
        if runner is not None:
            runner.end()
        for open_pool in (files, side_pool, pool):
            open_pool.close()
        store.close()

    routes = [
        *_changing_routes(ChangingRoutes(answering, settings.limits)),
        *MemoryRoutes(answering, settings.limits).routes(),
        *followed,
        *StoreRoutes(answering, settings.limits).routes(),
        *([] if jobs is None else _job_routes(jobs)),
        *([] if uploads is None else _upload_routes(uploads)),
        *page_routes(answering, pages, roots, people, jobs, uploads),
        *_health_routes(HealthRoutes(answering, figures)),
        Route("/openapi.json", _described),
        # Last, so that a question of another package takes no address of ours.
        *_asking_routes(answering, settings.limits),
    ]
    kinds = (DivergraphError, HTTPException, ClientGoneError, OSError, Exception)
    app = Starlette(
        routes=routes, exception_handlers=dict.fromkeys(kinds, failed), lifespan=lifespan
    )
    return Access(figures.counted(app), settings, doors, people)


def _asking_routes(answering: Answering, limits: Limits) -> list[Route]:
    downloads, cypher = DownloadRoutes(answering), CypherRoutes(answering, limits)
    questions = [
        Route(VERSION + route.path, answering.endpoint(route), methods=["GET"])
        for route in question_routes()
    ]
    return [
        *questions,
        Route(f"{VERSION}/runs/{{run}}/reports/{{kind}}", downloads.report),
        Route(f"{VERSION}/runs/{{run}}/exports/{{kind}}", downloads.export),
        Route(f"{VERSION}/graphs/{{run}}/exports/{{kind}}", downloads.export),
        Route(f"{VERSION}/runs/{{run}}/tensor.npy", downloads.array),
        Route(f"{VERSION}/runs/{{run}}/tensor.npz", downloads.arrays),
        Route(f"{VERSION}/query", cypher.rows, methods=["POST"]),
        Route(f"{VERSION}/plan", cypher.plan, methods=["POST"]),
    ]


def _changing_routes(changing: ChangingRoutes) -> list[Route]:
    return [
        route
        for kind in ("runs", "graphs")
        for route in (
            Route(f"{VERSION}/{kind}/{{run}}", changing.delete, methods=["DELETE"]),
            Route(f"{VERSION}/{kind}/{{run}}/name", changing.rename, methods=["PUT"]),
        )
    ]


def _health_routes(health: HealthRoutes) -> list[Route]:
    return [
        Route("/healthz", health.alive),
        Route("/readyz", health.ready),
        Route("/metrics", health.metrics),
    ]


def _runner_of(settings: ServerSettings, state: Path) -> JobRunner:
    try:
        private_folder(state)
    except OSError as error:
        message = f"the folder of its jobs cannot be made: {error.strerror}"
        raise StoreError(message, where=str(state)) from error
    table = JobTable(state / "jobs.sqlite")
    key, folder = store_key(settings.store), state / "jobs"
    return JobRunner(table, folder, key, settings.limits, Roots.of(settings))


def _uploads(answering: Answering, settings: ServerSettings, runner: JobRunner) -> UploadRoutes:
    quarantine = Quarantine(runner.shelf.root.parent / UPLOADS, settings.limits.uploads)
    return UploadRoutes(answering, quarantine, runner.table, settings.limits)


def _upload_routes(uploads: UploadRoutes) -> list[Route]:
    place = f"{VERSION}/uploads"
    return [
        Route(place, uploads.add, methods=["POST"]),
        Route(place, uploads.all, methods=["GET"]),
        Route(f"{place}/{{upload}}", uploads.one, methods=["GET"]),
        Route(f"{place}/{{upload}}", uploads.delete, methods=["DELETE"]),
    ]


def _job_routes(jobs: JobRoutes) -> list[Route]:
    place = f"{VERSION}/jobs"
    return [
        Route(place, jobs.add, methods=["POST"]),
        Route(place, jobs.all, methods=["GET"]),
        Route(f"{place}/{{job}}", jobs.one, methods=["GET"]),
        Route(f"{place}/{{job}}", jobs.stop, methods=["DELETE"]),
        Route(f"{place}/{{job}}/answer", jobs.answer, methods=["GET"]),
        Route(f"{place}/{{job}}/part.zip", jobs.part, methods=["GET"]),
        Route(f"{place}/{{job}}/events", jobs.events, methods=["GET"]),
    ]


async def _described(_request: Request) -> Response:
    return Response(openapi(), media_type="application/json")


def _failed(request: Request, error: Exception, doors: Doors) -> Response:
    if isinstance(error, ClientGoneError | CancelledError):
        return Response(status_code=_CLIENT_GONE)
    if wants_page(request.scope):
        return doors.refused(request.scope, problem_of(error))
    headers = error.headers if isinstance(error, HTTPException) else None
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": _methods_at(request)}
    return problem_of(error).response(headers)


def _methods_at(request: Request) -> str:
    """What may be done at the address of *request*, which several routes may have."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    there = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in there for method in route.methods or ()}))
