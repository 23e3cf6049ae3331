"""Everything stored about one run or graph, loaded once and shared by the questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from divergraph.analysis.verdicts import outputs_by_op
from graphstore.arrays import GraphArrays
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import (
    Comparison,
    LineageLink,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Run,
    Side,
)


@dataclass(frozen=True)
class Facts:
    """One side of a run, or an imported graph (then ``run`` is None, the rest empty)."""

    graph: ModelGraph
    side: Side
    arrays: GraphArrays
    ops: Mapping[str, Op]
    run: Run | None = None
    comparisons: tuple[Comparison, ...] = ()
    outputs: Mapping[str, list[Comparison]] = field(default_factory=dict)
    states: Mapping[str, OpState] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()
    links: Mapping[str, list[LineageLink]] = field(default_factory=dict)


_CACHE: WeakKeyDictionary[GraphStore, dict[tuple[str, Side], Facts]] = WeakKeyDictionary()


def load_facts(store: GraphStore, target: str, side: Side = Side.DEVICE) -> Facts:
    """The facts of *target*; kept while the store object lives and the run is the same.

    Raises:
        UnknownNameError: neither a run nor an imported graph has this name.
    """
    run = find_run(store, target)
    kept = _CACHE.setdefault(store, {})
    facts = kept.get((target, side))
    if facts is None or facts.run != run:
        facts = _load(store, target, side, run)
        kept[target, side] = facts
    return facts


def find_run(store: GraphStore, target: str) -> Run | None:
    """The run named *target*, None if that is an imported graph.

    Raises:
        UnknownNameError: neither a run nor an imported graph has this name.
    """
    try:
        return store.run(target)
    except UnknownNameError:
        if any(info.name == target for info in store.graphs()):
            return None
        raise


def _load(store: GraphStore, target: str, side: Side, run: Run | None) -> Facts:
    graph = store.graph(target, side)
    arrays = store.arrays(target, side)
    ops = graph.op_index()
    if run is None:
        return Facts(graph, side, arrays, ops)
    links: dict[str, list[LineageLink]] = {}
    for link in store.links(target):
        links.setdefault(link.device if side is Side.DEVICE else link.original, []).append(link)
    if side is Side.GOLDEN:
        return Facts(graph, side, arrays, ops, run, links=links)
    comparisons = tuple(store.comparisons(target))
    return Facts(
        graph,
        side,
        arrays,
        ops,
        run,
        comparisons,
        outputs_by_op(comparisons),
        store.states(target),
        tuple(store.origins(target)),
        links,
    )


def resolve_op(facts: Facts, name: str) -> str:
    """The id of the op *name* (an id, or a name only one op has).

    Raises:
        UnknownNameError: no such op, or several; close or fitting ids are in ``near``.
    """
    if name in facts.ops:
        return name
    same_name = [op.id for op in facts.graph.ops if op.name == name]
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise UnknownNameError("single op", name, near=same_name[:5])
    raise UnknownNameError("op", name, near=_near(facts, name))


def _near(facts: Facts, name: str) -> list[str]:
    """Up to three ids that contain *name* or are spelt much like it."""
    import difflib

    part = name.lower()
    inside = [op_id for op_id in facts.ops if part in op_id.lower()]
    return sorted(inside, key=len)[:3] or difflib.get_close_matches(name, facts.ops, n=3)
