"""A run: its verdict and where the error starts, a plot and a table of its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from divergraph.ask.facts import Facts, find_run, load_facts
from divergraph.ask.op_order import IN_GRAPH, IN_RUN, STATE_ORDER
from divergraph.ask.overview_answers import sides_of
from divergraph.present.html import parts
from divergraph.server.answering import Answering, check_role
from divergraph.server.login.people import check_link
from divergraph.server.login.shares import ShareFile
from divergraph.server.pages.links import Links
from divergraph.server.pages.op_table import TablePage, TableWish, op_table
from divergraph.server.pages.question_page import questions_about
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.run_plot import run_plot
from divergraph.server.roots import Roots
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import FilterError
from graphstore.filter import OpFilter
from graphstore.model import OpState, Run, Side


class RunPage:
    """Answers ``/runs/NAME``, of a run or an imported graph."""

    def __init__(
        self, answering: Answering, pages: Pages, roots: Roots, shares: ShareFile | None
    ) -> None:
        self._answering, self._pages = answering, pages
        self._roots, self._shares = roots, shares

    async def page(self, request: Request) -> Response:
        """The run."""
        check_role(request, UserRole.READER)

        def work(_cancellation: Cancellation) -> Response:
            return self._page(request, request.path_params["run"])

        return await self._answering.pool.answer(request, work)

    def _page(self, request: Request, name: str) -> Response:
        store, links = self._answering.store, Links.of(request)
        run = find_run(store, name)
        if run is not None:
            check_link(request.scope.get("link"), run)
        wish = TableWish.of(request.query_params, IN_GRAPH if run is None else IN_RUN)
        problem = ""
        try:
            table = op_table(store, name, wish, in_run=run is not None)
        except FilterError as error:
            problem = f"{error.what}; {error.hint}" if error.hint else error.what
            table = op_table(store, name, replace(wish, where=""), in_run=run is not None)
            table = replace(table, wish=wish)
        values = {"name": name, "table": table, "problem": problem, "sides": list(Side)}
        values |= {"is_run": run is not None}
        if run is not None:
            listed = wish.filters() if not problem and wish.side is Side.DEVICE else ()
            values |= self._of_run(request, run, links, table, listed)
        else:
            graph = next(graph for graph in store.graphs() if graph.name == name)
            values |= {"graph": graph, "source": self._roots_for(request).shown(graph.source)}
        return self._pages.page(request, "run.html", values, 400 if problem else 200)

    def _of_run(
        self,
        request: Request,
        run: Run,
        links: Links,
        table: TablePage,
        wanted: Sequence[OpFilter],
    ) -> Mapping[str, Any]:
        store = self._answering.store
        facts = load_facts(store, run.name)
        plot = run_plot(store, run.name, links, request.query_params, wanted)
        shares = [] if self._shares is None else self._shares.of_run(run.name)
        return {
            "questions": questions_about(runs=True),
            "plot": plot,
            "counts": _in_order(facts.rows.states.counted()),
            "can_share": self._shares is not None,
            "shares": shares,
            "query": dict(plot.query()) | dict(table.wish.query()),
            **self._report(run, facts, links, self._roots_for(request)),
        }

    def _roots_for(self, request: Request) -> Roots:
        return self._roots.for_guests() if request.scope.get("link") else self._roots

    def _report(self, run: Run, facts: Facts, links: Links, roots: Roots) -> dict[str, Markup]:
        """What the HTML report says of a run, with links to pages."""
        answer, sides = facts.answer, sides_of(self._answering.store, run.name)
        assert answer is not None

        def link(op: str) -> str:
            if op not in facts.arrays.number:
                return f"<code>{parts.shown(op)}</code>"
            address = parts.shown(links.op(run.name, op))
            return f'<a class="op" href="{address}">{parts.shown(op)}</a>'

        inputs = {name: roots.shown(path) for name, path in run.inputs.items()}
        warnings = tuple(map(roots.told, run.warnings))
        texts = {
            "head": parts.head(run, str(sides["device"]), str(sides["golden"])),
            "origins": parts.origins(answer, link),
            "blame": parts.blame(run, link),
            "findings": parts.findings(answer.findings, link),
            "not_compared": parts.not_compared(facts.reasons, link),
            "about": parts.about(replace(run, inputs=inputs, warnings=warnings)),
        }
        # these are escaped where they are made
        return {name: Markup(text) for name, text in texts.items()}  # noqa: S704


def _in_order(counts: Mapping[OpState | None, int]) -> dict[OpState, int]:
    """What matters most first, as the lists of states in all faces."""
    return {state: counts[state] for state in STATE_ORDER if state in counts}
