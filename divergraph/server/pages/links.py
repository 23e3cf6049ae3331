"""The addresses of pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request

from graphstore.model import Side

_HALVES = "surrogatepass"


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses below ``base``, which is that of a link that shows one run, or nothing. Where a
    part of a model is being chosen, they hand its ``start`` and ``end`` on."""

    base: str = ""
    start: str = ""
    end: str = ""

    @classmethod
    def of(cls, request: Request) -> Links:
        """Those of the page that *request* asks for."""
        query = exact_query(request)
        base: str = request.scope.get("root_path", "")
        return cls(base, query.get("start", ""), query.get("end", ""))

    def marked(self, *, start: str | None = None, end: str | None = None) -> Links:
        """With another start or end; empty: without."""
        return replace(
            self,
            start=self.start if start is None else start,
            end=self.end if end is None else end,
        )

    def runs(self, **query: object) -> str:
        """All runs."""
        return _address(f"{self.base}/", query)

    def run(self, run: str, **query: object) -> str:
        """A run."""
        return _address(f"{self.base}/runs/{_segment(run)}", self._marks() | query)

    def op(self, run: str, op: str, side: Side | str = Side.DEVICE, **query: object) -> str:
        """An op of a run."""
        named = {"op": op} | ({} if Side(side) is Side.DEVICE else {"side": Side(side).value})
        return _address(f"{self.base}/runs/{_segment(run)}/op", named | self._marks() | query)

    def graph(self, run: str, asked: str = "", **query: object) -> str:
        """The picture of a run's graphs, or what it asks."""
        path = f"{self.base}/runs/{_segment(run)}/graph"
        return f"{path}/{asked}" if asked else _address(path, self._marks() | query)

    def part(self, run: str, **query: object) -> str:
        """The part of a run's model between the marks."""
        return _address(f"{self.base}/runs/{_segment(run)}/part", self._marks() | query)

    def file(self, target: str, kind: str, name: str, **query: object) -> str:
        """A file of a run or graph: *name* of its ``exports``, or of a run's ``reports``."""
        whose = "graphs" if query.pop("is_graph", False) else "runs"
        return _address(f"/v1/{whose}/{_segment(target)}/{kind}/{name}", query)

    def ask(self, question: str, run: str | None = None, /, **query: object) -> str:
        """The page of a question, about a run if it is of one."""
        about = "" if run is None else f"/runs/{_segment(run)}"
        return _address(f"{about}/ask/{_segment(question)}", query)

    def answer(self, path: str, run: str | None, **query: object) -> str:
        """What the route *path* of a question answers."""
        return _address(f"/v1{path}".replace("{run}", _segment(run or "")), query)

    def shares(self, run: str) -> str:
        """The links to a run."""
        return f"{self.base}/runs/{_segment(run)}/shares"

    def job(self, job: str) -> str:
        """A job."""
        return f"/jobs/{_segment(job)}"

    def _marks(self) -> dict[str, object]:
        marks = {"start": self.start, "end": self.end}
        return {name: op for name, op in marks.items() if op}


def exact_query(request: Request) -> Mapping[str, str]:
    """The parameters of an address as ``Links`` writes them: half surrogates, too, which names in a
    graph may hold."""
    query: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors=_HALVES)
    except (UnicodeDecodeError, ValueError):  # none of our addresses
        return request.query_params
    return dict(pairs)


def _segment(text: str) -> str:
    return quote(text, safe="", errors=_HALVES)


def _address(path: str, query: dict[str, object]) -> str:
    """What is empty is left out."""
    values = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    text = urlencode(values, quote_via=quote, safe="/:", errors=_HALVES)
    return f"{path}?{text}" if text else path
