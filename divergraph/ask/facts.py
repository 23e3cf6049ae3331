"""The facts of one side of a run or of a graph, loaded once and shared by the questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from divergraph.ask.answers import ReasonGroup
from divergraph.ask.columns import read_columns, with_causes
from divergraph.ask.op_attributes import read_attributes
from divergraph.ask.op_order import IN_GRAPH, Order, arrange
from divergraph.ask.origin_answers import OriginsAnswer, origins
from divergraph.ask.reasons import ReasonCounter
from graphstore.columns.coded import Coded, Int, small
from graphstore.columns.op_columns import OpColumns
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.filter import OpFilter
from graphstore.gc_paused import gc_paused
from graphstore.model import Origin, Run, Side
from graphstore.op_row import OpRow
from graphstore.recent import Recent
from graphstore.traverse.algorithms import has_way_back
from graphstore.traverse.arrays import GraphArrays


@dataclass(frozen=True)
class Facts:
    """One side of a run, or an imported graph (then ``run`` is None and nothing measured).

    ``rows[i]`` is the row of op number i of ``arrays``, made when it is asked for: what looks at
    all ops takes columns. Inputs, attributes and files of single ops are read when they are shown.
    """

    side: Side
    arrays: GraphArrays
    rows: OpColumns
    run: Run | None = None
    origins: tuple[Origin, ...] = ()
    reasons: tuple[ReasonGroup, ...] = ()
    answer: OriginsAnswer | None = None
    upstream: Coded[tuple[int, ...]] | None = None
    """For each op the places of the ``origins`` it can be reached from."""


@dataclass(frozen=True, slots=True)
class OpPage:
    """A part of a list of ops: those behind the op ``after``, ``limit`` at the most, of all in this
    order."""

    order: Order = IN_GRAPH
    after: str | None = None
    limit: int | None = None


WHOLE = OpPage()

_CACHE: WeakKeyDictionary[GraphStore, Recent[Facts]] = WeakKeyDictionary()
_CACHE_LOCK = Lock()
_FEW = 2
"""Both sides of a run, however large."""


def load_facts(store: GraphStore, target: str, side: Side = Side.DEVICE) -> Facts:
    """The facts of *target*, kept while the store object lives and the run is unchanged; those
    asked for longest ago are forgotten if there is much.

    Raises:
        UnknownNameError: neither a run nor an imported graph has this name.
    """
    run = find_run(store, target)
    return _recent(store).get(
        _key(target, side),
        lambda: _load(store, target, side, run),
        lambda facts: facts.run == run,
    )


def known_facts(store: GraphStore, target: str, side: Side) -> Facts | None:
    """The same if they are loaded, None if not.

    Raises:
        UnknownNameError: neither a run nor an imported graph has this name.
    """
    run, facts = find_run(store, target), _recent(store).known(_key(target, side))
    return facts if facts is not None and facts.run == run else None


def _recent(store: GraphStore) -> Recent[Facts]:
    with _CACHE_LOCK:
        return _CACHE.setdefault(store, Recent(_FEW))


def _key(target: str, side: Side) -> str:
    return f"{side.value} {target}"


def op_rows(
    store: GraphStore,
    target: str,
    side: Side = Side.DEVICE,
    where: OpFilter | None = None,
    page: OpPage = WHOLE,
) -> list[OpRow]:
    """The ops of a run's side or of an imported graph, filtered: all, or a *page* of them.

    Raises:
        UnknownNameError: no such run or graph, or no op that the page follows.
    """
    _, numbers = op_numbers(store, target, side, where, page)
    with gc_paused():
        return load_facts(store, target, side).rows.rows(numbers)


def op_numbers(
    store: GraphStore,
    target: str,
    side: Side = Side.DEVICE,
    where: OpFilter | None = None,
    page: OpPage = WHOLE,
) -> tuple[Sequence[str], Int]:
    """The ids of all ops, and the numbers of those that :func:`op_rows` lists, without making their
    rows; ops as they come in the graph are numbered without reading anything else of them.

    Raises:
        UnknownNameError: no such run or graph, or no op that the page follows.
    """
    if where is None and page.order == IN_GRAPH:
        arrays = store.arrays(target, side)
        if page.after is not None and page.after not in arrays.number:
            raise UnknownNameError("op in this list", page.after)
        first = 0 if page.after is None else arrays.number[page.after] + 1
        numbers = np.arange(first, len(arrays.ids), dtype=np.int32)
        return arrays.ids, numbers[: page.limit]
    rows, wanted = load_facts(store, target, side).rows, () if where is None else (where,)
    read_attributes(store, target, rows, wanted)
    numbers = _chosen(rows, page.order, wanted)
    if page.after is not None:
        numbers = numbers[_place_of(rows, numbers, page.after) + 1 :]
    return rows.ids, numbers[: page.limit]


@dataclass(frozen=True, slots=True)
class OpListing:
    """``rows`` of a list of ``total`` ops, from its place ``first`` on."""

    rows: Sequence[OpRow]
    first: int
    total: int


def op_listing(
    store: GraphStore,
    target: str,
    side: Side,
    wanted: Sequence[OpFilter],
    order: Order,
    places: range,
) -> OpListing:
    """Those ops in *places* of a list that all filters *wanted* take, and how many there are.

    Raises:
        UnknownNameError: no such run or graph.
    """
    rows = load_facts(store, target, side).rows
    read_attributes(store, target, rows, wanted)
    numbers = _chosen(rows, order, wanted)
    with gc_paused():
        listed = rows.rows(numbers[places.start : places.stop])
    return OpListing(listed, places.start, len(numbers))


def _chosen(rows: OpColumns, order: Order, wanted: Sequence[OpFilter]) -> Int:
    """The numbers of the ops that all filters take, in order."""
    numbers = arrange(rows, order)
    for condition in wanted:
        numbers = numbers[condition.mask(rows)[numbers]]
    return numbers


def _place_of(rows: OpColumns, numbers: Int, op: str) -> int:
    """The place of *op* among the ops *numbers*."""
    places = np.flatnonzero(numbers == rows.number.get(op, -1))
    if not len(places):
        raise UnknownNameError("op in this list", op)
    return int(places[0])


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
    arrays, reasons = store.arrays(target, side), ReasonCounter()
    ops = read_columns(store, target, side, arrays, reasons)
    if run is None or side is Side.GOLDEN:
        return Facts(side, arrays, ops, run)
    answer = origins(store, target, next_dumps=False)
    starts = tuple(one.origin for one in answer.origins)
    named = [origin.op for origin in starts]
    upstream = upstream_of_each(arrays, [arrays.number[op] for op in named])
    caused = with_causes(ops, arrays, named, upstream)
    return Facts(side, arrays, caused, run, starts, tuple(reasons.groups()), answer, upstream)


def resolve_op(store: GraphStore, target: str, name: str, side: Side = Side.DEVICE) -> str:
    """The id of the op *name* (an id, a name only one op has, or that of its first output's
    tensor).

    Raises:
        UnknownNameError: no such op, or several; close or fitting ids are in ``near``.
    """
    ids = store.arrays(target, side).ids
    if name in store.arrays(target, side).number:
        return name
    # an id is the name itself, or <sub-graph>/<name>
    perhaps = [op_id for op_id in ids if op_id.endswith(f"/{name}")]
    same_name = [op.id for op in store.ops(target, perhaps, side).values() if op.name == name]
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise UnknownNameError("single op", name, near=same_name[:5])
    makers = store.makers(target, name, side)
    if len(makers) == 1 and makers[0].port == 0:
        return makers[0].op
    makers_text = " and ".join(f"output {maker.port} of {maker.op}" for maker in makers[:3])
    hint = f"it is {makers_text}" if makers_text else _on_the_other_side(store, target, name, side)
    raise UnknownNameError("op", name, near=_similar_ids(ids, name), hint=hint)


def _on_the_other_side(store: GraphStore, target: str, name: str, side: Side) -> str:
    """Where the other graph of a run has the op *name*; empty if it has not."""
    other = Side.GOLDEN if side is Side.DEVICE else Side.DEVICE
    run = find_run(store, target)
    if run is None or name not in store.arrays(target, other).number:
        return ""
    links = store.links(target, name, other)
    twins = {link.device if side is Side.DEVICE else link.original for link in links}
    twin_names = ", ".join(sorted(twins)) or "no op"
    return f"it is an op of the {other.value} graph; here it is in {twin_names}"


def _similar_ids(ids: Sequence[str], name: str) -> list[str]:
    """Up to three ids that contain *name* or are spelled similarly."""
    import difflib

    part = name.lower()
    inside = [op_id for op_id in ids if part in op_id.lower()]
    return sorted(inside, key=len)[:3] or difflib.get_close_matches(name, ids, n=3)


def upstream_of_each(arrays: GraphArrays, starts: Sequence[int]) -> Coded[tuple[int, ...]]:
    """For each op number, the places in *starts* of the ops it can be reached from.

    An op reaches itself only through a loop. Different answers are few, as ops behind each other
    share them. It takes one pass over the edges, a few more if the graph has loops.
    """
    reached = _masks(arrays, starts)
    codes: dict[int, int] = {}
    column = [codes.setdefault(mask, len(codes)) for mask in reached]
    answers = (
        tuple(place for place in range(mask.bit_length()) if mask >> place & 1) for mask in codes
    )
    return Coded(small(np.asarray(column, dtype=np.int32), len(codes)), tuple(answers))


def _masks(arrays: GraphArrays, starts: Sequence[int]) -> list[int]:
    """For each op a number whose bit i is set if ``starts[i]`` reaches it."""
    size = len(arrays.ids)
    own = {number: 1 << place for place, number in enumerate(starts)}
    begin, sources = arrays.predecessor_start.tolist(), arrays.predecessor_ops.tolist()
    reached = [0] * size
    passed_on = [own.get(number, 0) for number in range(size)]
    equal: dict[int, int] = {}
    again = bool(starts)
    while again:
        changed = False
        for number in range(size):
            mask = reached[number]
            for source in sources[begin[number] : begin[number + 1]]:
                mask |= passed_on[source]
            if mask != reached[number]:
                changed = True
                reached[number] = equal.setdefault(mask, mask)
                passed = mask | own.get(number, 0)
                passed_on[number] = equal.setdefault(passed, passed)
        again = changed and has_way_back(arrays)
    return reached
