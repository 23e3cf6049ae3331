"""The graph of a run as a picture that unfolds, both sides beside each other, and what it asks."""

from __future__ import annotations

from itertools import islice
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from divergraph.ask.changed_ops import changes_since
from divergraph.ask.facts import OpPage, find_run, op_rows
from divergraph.ask.question import Question, question_of, runs_of
from divergraph.ask.questions.compare_runs import RunChanges
from divergraph.ask.questions.graph import GraphQuestion
from divergraph.ask.questions.ops import OpsQuestion
from divergraph.ask.questions.trace import TraceQuestion
from divergraph.outcomes import outcome_of_error
from divergraph.present.html.graph_room import GraphRoom, changes_markup, first_op
from divergraph.present.json_text import Json
from divergraph.server.answering import Answering, Endpoint, check_role, document
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.login.people import check_link
from divergraph.server.pages.links import Links, exact_query
from divergraph.server.pages.part_page import marked_part
from divergraph.server.pages.rendering import Pages, assets_version
from divergraph.server.parameters import values_of
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import DivergraphError, InputError
from graphstore.filter import parse_filter
from graphstore.model import Run, Side

ASKED: dict[str, type[Question[Any]]] = {"levels": GraphQuestion, "path": TraceQuestion}
"""What the picture asks, by the last part of the address."""
_FOUND = 12
_CHANGES, _OTHERS, _NEAREST = 20, 50, 6


class GraphPage:
    """Answers ``/runs/NAME/graph``, of a run or an imported graph."""

    def __init__(self, answering: Answering, pages: Pages, jobs: JobRoutes | None) -> None:
        self._answering, self._pages, self._jobs = answering, pages, jobs

    async def page(self, request: Request) -> Response:
        """The picture; the first origin is selected unless the address says an op."""
        check_role(request, UserRole.READER)
        link = request.scope.get("link")  # which shows one run
        against = "" if link else exact_query(request).get("against", "")

        def work(_cancellation: Cancellation) -> Response:
            name = request.path_params["run"]
            run = self._run(request)
            store = self._answering.store
            origins = [] if run is None else store.origins(name)
            changes, problem, status = None, "", 200
            if run is not None and against:
                try:
                    changes = changes_since(store, against, name)
                except DivergraphError as error:  # the graph alone is still worth showing
                    problem, status = str(error), outcome_of_error(error).status
            links = Links.of(request)
            others = [] if run is None or link else _others(store, run)
            if changes is not None and against not in others:
                others.append(against)
            room = GraphRoom(
                name,
                run is not None,
                first_op(origins, changes),
                {"start": links.start, "end": links.end},
                "" if changes is None else against,
                others,
                bool(origins) and not link,
                "Find: part of a name, cos<0.99, type:MatMul*   ( / )",
                {
                    **{word: links.graph(name, word) for word in ("levels", "ops", "path")},
                    "op": f"{links.run(name).partition('?')[0]}/op",
                    "part": links.graph(name, "part"),
                    "layout": f"/static/graph_layout.js?{assets_version()}",
                },
            )
            values = {
                "name": name,
                "ops": len(store.arrays(name).ids),
                "problem": problem,
                "is_run": run is not None,
                "searches": run is not None and self._jobs is not None,
                "changes": "" if changes is None else _listed(changes, name, links),
                "room": Markup(room.markup()),  # noqa: S704 - names are escaped there
            }
            return self._pages.page(request, "graph.html", values, status)

        return await self._answering.pool.answer(request, work)

    def asks(self, kind: type[Question[Any]]) -> Endpoint:
        """What answers a question of the picture."""

        async def answer(request: Request) -> Response:
            check_role(request, UserRole.READER)
            run = request.path_params["run"]
            if request.scope.get("link") and kind is TraceQuestion:
                raise HTTPException(404)  # a trace says the notes of the team
            values = values_of(kind, exact_query(request).items(), {"run": run})
            if request.scope.get("link") and set(runs_of(question_of(kind, values))) != {run}:
                raise HTTPException(404)  # a link shows one run
            await self._answering.pool.answer(request, lambda _cancellation: self._run(request))
            return await self._answering.answer(request, question_of(kind, values), run)

        return answer

    async def found(self, request: Request) -> Response:
        """A few ops that a filter takes, with no more than who they are."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            self._run(request)
            query = exact_query(request)
            values = {name: query[name] for name in ("where", "side") if name in query}
            run = request.path_params["run"]
            question = question_of(
                OpsQuestion, values_of(OpsQuestion, values.items(), {"run": run})
            )
            where = parse_filter(question.where) if question.where else None
            page = OpPage(limit=_FOUND)
            rows = op_rows(self._answering.store, run, question.side, where, page)
            ops: Json = [{"op": row.id, "type": row.type, "state": row.state} for row in rows]
            return document({"ops": ops})

        return await self._answering.pool.answer(request, work)

    async def part(self, request: Request) -> Response:
        """The part between the marks ``start`` and ``end``: its ops, or why it may not be cut."""
        check_role(request, UserRole.ANALYST)

        def work(_cancellation: Cancellation) -> Response:
            run = self._run(request)
            links, problem = Links.of(request), ""
            try:
                part, why_not = marked_part(
                    self._answering.store, request.path_params["run"], links.start, links.end
                )
            except InputError as error:
                part, why_not, problem = None, "", str(error)
            ops: list[Json] = [] if part is None else [*sorted(part.chosen)]
            return document(
                {
                    "side": Side.DEVICE.value if run is None else Side.GOLDEN.value,
                    "ops": ops,
                    "inputs": 0 if part is None else len(part.inputs),
                    "outputs": 0 if part is None else len(part.outputs),
                    "refused": [
                        {
                            "sentence": refusal.sentence,
                            "starts": list(refusal.starts[:_NEAREST]),
                            "ends": list(refusal.ends[:_NEAREST]),
                        }
                        for refusal in (() if part is None else part.refused)
                    ],
                    "why_not": why_not or problem,
                }
            )

        return await self._answering.pool.answer(request, work)

    def _run(self, request: Request) -> Run | None:
        run = find_run(self._answering.store, request.path_params["run"])
        if run is not None:
            check_link(request.scope.get("link"), run)
        return run


def _listed(changes: RunChanges, run: str, links: Links) -> Markup:
    table = links.ask("compare-runs", old=changes.old.name, new=run)

    def address(op: str, side: Side) -> str:
        return links.op(run, op, side)

    return Markup(changes_markup(changes, _CHANGES, address, table))  # noqa: S704 - escaped there


def _others(store: GraphStore, run: Run) -> list[str]:
    """The newest other runs of the model of *run*."""
    runs = (one.name for one in reversed(store.runs()) if one.golden == run.golden)
    return list(islice((name for name in runs if name != run.name), _OTHERS))
