"""The first page: runs with their verdicts, and imported graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.ask.memory.baselines import standing_text
from divergraph.ask.questions.regressions import RegressionsQuestion, regressions_words
from divergraph.ask.questions.runs import EntriesQuestion, StoreEntries
from divergraph.outcomes import WORST_FIRST
from divergraph.server.answering import Answering, check_role
from divergraph.server.pages.links import Links
from divergraph.server.pages.question_page import questions_about
from divergraph.server.pages.rendering import Pages
from divergraph.server.tokens import UserRole
from divergraph.text.words import reserve_text
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError
from graphstore.model import Run, Verdict

ROWS = 50
_MOST = 1 << 31
_KEYS: Mapping[str, Callable[[Run], Any]] = {
    "name": lambda run: run.name,
    "verdict": lambda run: WORST_FIRST.index(run.verdict),
    "ops": lambda run: -run.counts.ops,
    "compared": lambda run: -run.counts.compared,
    "over": lambda run: -run.counts.over,
    "created": lambda run: run.created,
}
_COLUMNS = (
    ("name", "run", False),
    ("verdict", "verdict", False),
    ("over", "over a limit", True),
    ("compared", "compared", True),
    ("ops", "ops", True),
    ("created", "compared at, UTC", False),
)
_LARGEST_FIRST = ("ops", "compared", "over")


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of the runs that were wanted; ``total`` are wanted, ``all`` are there."""

    runs: Sequence[Run]
    first: int
    total: int
    all: int
    page: int
    order: str
    name: str
    verdict: str

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.total // ROWS))

    def query(self, **other: object) -> Mapping[str, object]:
        """The wish as parameters of an address, with *other* ones."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "sort": "" if self.order == "-created" else self.order,
        } | other

    def columns(self) -> list[tuple[str, bool, str, str]]:
        """The title of each column, whether it holds numbers, how it is sorted, the order that a
        click on it gives."""
        key, falls = self.order.removeprefix("-"), self.order.startswith("-")
        columns = []
        for name, title, is_number in _COLUMNS:
            down = falls != (name in _LARGEST_FIRST)
            direction = "" if name != key else "descending" if down else "ascending"
            following = f"-{name}" if name == key and not falls else name
            columns.append((title, is_number, direction, following))
        return columns


def run_list(entries: StoreEntries, params: QueryParams) -> RunList:
    """Those of the runs that *params* want.

    Raises:
        InputError: a parameter is none of those that are offered.
    """
    order, page = params.get("sort") or "-created", params.get("page") or "1"
    name, verdict = params.get("name", "").strip(), params.get("verdict", "")
    if order.removeprefix("-") not in _KEYS:
        raise InputError("runs cannot be sorted by that", where="sort")
    if verdict and verdict not in list(Verdict):
        raise InputError("there is no such verdict", where="verdict")
    if not page.isascii() or not page.isdigit() or not 0 < int(page) < _MOST:
        raise InputError("a page has a number from 1 on", where="page")
    wanted = [
        run
        for run in entries.runs
        if name.casefold() in run.name.casefold() and verdict in ("", run.verdict.value)
    ]
    wanted.sort(key=_KEYS[order.removeprefix("-")], reverse=order.startswith("-"))
    first = (int(page) - 1) * ROWS
    runs = wanted[first : first + ROWS]
    return RunList(runs, first, len(wanted), len(entries.runs), int(page), order, name, verdict)


class RunsPage:
    """Answers ``/``."""

    def __init__(self, answering: Answering, pages: Pages) -> None:
        self._answering, self._pages = answering, pages

    async def page(self, request: Request) -> Response:
        """All runs, or those that are wanted."""
        check_role(request, UserRole.READER)

        def work(cancellation: Cancellation) -> Response:
            entries = EntriesQuestion().ask(self._answering.store, cancellation)
            regressions = RegressionsQuestion().ask(self._answering.store, cancellation)
            values = {
                "regressions": regressions,
                "regressions_words": regressions_words(regressions),
                "list": run_list(entries, request.query_params),
                "graphs": entries.graphs,
                "verdicts": list(Verdict),
                "questions": questions_about(runs=False),
                "reserve": reserve_text,
                "standings": {
                    name: standing_text(standing) for name, standing in entries.standings.items()
                },
            }
            return self._pages.page(request, "runs.html", values)

        return await self._answering.pool.answer(request, work)

    async def pair(self, request: Request) -> Response:
        """On to what changed from the older to the newer of two runs, in the graph."""
        check_role(request, UserRole.READER)
        names = request.query_params.getlist("run")

        def work(_cancellation: Cancellation) -> Response:
            if len(names) != 2:
                raise InputError("tick two runs", where="run")
            old, new = sorted(map(self._answering.store.run, names), key=lambda run: run.created)
            return RedirectResponse(Links().graph(new.name, against=old.name), 303)

        return await self._answering.pool.answer(request, work)
