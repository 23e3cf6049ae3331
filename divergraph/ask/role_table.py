"""What each op of a run does to the error, with the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from divergraph.ask.facts import find_run, load_facts
from divergraph.ask.op_attributes import read_attributes
from divergraph.ask.output_errors import output_errors
from divergraph.ask.rows import split_weight
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.filter import OpFilter
from graphstore.model import SPLIT_ORDERS, ErrorSplit, Guilt, Method, Note, Role, Run

ORDERS = ("topo", *SPLIT_ORDERS)
"""What roles can be sorted by; all but topo with the largest first."""


@dataclass(frozen=True, slots=True)
class RoleRow:
    """An op with the split of its most suspicious output."""

    topo: int
    id: str
    type: str
    split: ErrorSplit


@dataclass(frozen=True, slots=True)
class RoleTable:
    """The ops with a split, and how many have each role and guilt (of the whole run); ``notes`` on
    ops, where they were asked for."""

    run: Run
    rows: tuple[RoleRow, ...]
    roles: Mapping[Role, int]
    guilt: Mapping[Guilt, int]
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)


def roles(
    store: GraphStore, run: str, where: OpFilter | None = None, *, order: str = "topo"
) -> RoleTable:
    """The ops of *run* root-cause analysis says something of, filtered, sorted by *order*.

    Raises:
        UnknownNameError: no such run (an imported graph has no roles).
    """
    found = find_run(store, run)
    if found is None:
        raise UnknownNameError("run", run)
    split = _split_rows(store, found)
    shown = split if where is None else _fitting(store, run, where, split)
    return RoleTable(
        found,
        tuple(shown if order == "topo" else sorted(shown, key=_largest_first(order))),
        Counter(row.split.role for row in split),
        Counter(row.split.guilt for row in split),
    )


def _split_rows(store: GraphStore, run: Run) -> list[RoleRow]:
    if run.method is not Method.ROOT_CAUSE:
        return []
    worst: dict[int, RoleRow] = {}
    for one in output_errors(store, run):
        if one.split is None:
            continue
        known = worst.get(one.topo)
        if known is None or split_weight(one.split) > split_weight(known.split):
            worst[one.topo] = RoleRow(one.topo, one.op, one.type, one.split)
    return [worst[topo] for topo in sorted(worst)]


def _fitting(
    store: GraphStore, run: str, where: OpFilter, rows: Iterable[RoleRow]
) -> list[RoleRow]:
    """Those of *rows* the filter lets pass; it may ask for anything, so all of it is read."""
    ops = load_facts(store, run).rows
    read_attributes(store, run, ops, (where,))
    fits = where.mask(ops)
    return [row for row in rows if fits[row.topo]]


def _largest_first(name: str) -> Callable[[RoleRow], float]:
    def key(row: RoleRow) -> float:
        value: float | None = getattr(row.split, name)
        return 1.0 if value is None else -value

    return key
