"""Where to start a part so that the least data go into it: a minimum cut in bytes.

Source: the project's study of boundaries (a few ops more, 28 to 61 % fewer bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divergraph.submodel.select import Selector
from divergraph.submodel.selection import Selection, SelectionRequest

LEVELS = 6
"""How many ops upstream a better cut is looked for."""
_UNKNOWN = 1 << 50
_SOURCE, _SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A larger part with fewer bytes going in: ``before`` and ``after``."""

    selection: Selection
    before: int
    after: int


def smallest_boundary(
    selector: Selector, part: Selection, wish: SelectionRequest
) -> Suggestion | None:
    """The part grown upstream to where the fewest bytes go in; None if it is so already. The larger
    part has to be tested again."""
    before = _bytes_in(part)
    if before is None or part.refused or not part.chosen:
        return None
    grown = _grown(selector, part)
    if not grown:
        return None
    better = selector.hull({*part.chosen, *grown}, wish)
    after = _bytes_in(better)
    if better.refused or after is None or after >= before:
        return None
    return Suggestion(better, before, after)


def _bytes_in(part: Selection) -> int | None:
    sizes = [tensor.nbytes for tensor in part.inputs if not tensor.frozen]
    sizes_known = [size for size in sizes if size is not None]
    return sum(sizes_known) if len(sizes_known) == len(sizes) else None


def _grown(selector: Selector, part: Selection) -> set[str]:
    """Ops upstream that lie on the part's side of the cheapest cut."""
    import networkx as nx

    upstream = _upstream(selector, part)
    selector.fetch(upstream)
    flow: nx.DiGraph[Any] = nx.DiGraph()
    flow.add_nodes_from((_SOURCE, _SINK))
    chosen = set(part.chosen)

    def end(op: str) -> tuple[str, str] | str:
        return _SINK if op in chosen else ("op", op)

    for op in (*upstream, *chosen):
        for tensor in selector.taken(op):
            if tensor.ref is not None and tensor.ref.op in chosen:
                continue
            into, out = ("in", tensor.name), ("out", tensor.name)
            size = _UNKNOWN if tensor.nbytes is None else tensor.nbytes
            flow.add_edge(into, out, capacity=size)
            flow.add_edge(out, end(op))
            if tensor.ref is not None and tensor.ref.op in upstream:
                flow.add_edge(end(tensor.ref.op), into)
                if op not in chosen:
                    # an op above the cut has what feeds it above the cut, too
                    flow.add_edge(end(op), end(tensor.ref.op))
            else:
                flow.add_edge(_SOURCE, into)
    _, (_, below) = nx.minimum_cut(flow, _SOURCE, _SINK)
    return {op for op in upstream if ("op", op) in below}


def _upstream(selector: Selector, part: Selection) -> set[str]:
    upstream: set[str] = set()
    front = set(part.chosen)
    for _ in range(LEVELS):
        selector.fetch(front)
        front = {
            tensor.ref.op
            for op in front
            for tensor in selector.taken(op)
            if tensor.ref is not None and tensor.ref.op not in part.chosen
        } - upstream
        upstream |= front
    return upstream
