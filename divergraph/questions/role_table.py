"""What each op of a run does to the error, with the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from divergraph.questions.analysed import Analysis, read_analysis
from divergraph.questions.facts import load_facts
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import Guilt, Role
from graphstore.op_filter import OpFilter
from graphstore.op_row import OpRow

ORDERS = ("topo", "suspicion", "introduced", "propagated", "amplification")
"""What roles can be sorted by; all but topo with the largest first."""


@dataclass(frozen=True, slots=True)
class RoleTable:
    """The ops with a split, and how many have each role and guilt (of the whole run)."""

    analysis: Analysis
    rows: tuple[OpRow, ...]
    roles: Mapping[Role, int]
    guilt: Mapping[Guilt, int]


def roles(
    store: GraphStore, run: str, where: OpFilter | None = None, *, order: str = "topo"
) -> RoleTable:
    """The ops of *run* root-cause analysis says something of, filtered, sorted by *order*.

    Raises:
        UnknownNameError: no such run (an imported graph has no roles).
    """
    facts = load_facts(store, run)
    if facts.run is None:
        raise UnknownNameError("run", run)
    split = [row for row in facts.rows if row.split is not None]
    shown = [row for row in split if where is None or where.matches(row)]
    return RoleTable(
        read_analysis(facts.run),
        tuple(shown if order == "topo" else sorted(shown, key=_largest_first(order))),
        Counter(row.split.role for row in split if row.split is not None),
        Counter(row.split.guilt for row in split if row.split is not None),
    )


def _largest_first(name: str) -> Callable[[OpRow], float]:
    def key(row: OpRow) -> float:
        value: float | None = getattr(row.split, name)
        return 1.0 if value is None else -value

    return key
