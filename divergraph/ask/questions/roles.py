"""What each op of a run does to the error, with the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from divergraph.ask.facts import find_run, load_facts
from divergraph.ask.judging import Judging
from divergraph.ask.memory.notes import notes_by_op
from divergraph.ask.op_attributes import read_attributes
from divergraph.ask.output_errors import output_errors
from divergraph.ask.question import FLAT, Parameter, Question, RunName
from divergraph.ask.rows import split_weight
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.filter import OpFilter, parse_filter
from graphstore.model import SPLIT_ORDERS, ErrorSplit, Guilt, Method, Note, Role, Run

ORDERS = ("topo", *SPLIT_ORDERS)
"""What roles can be sorted by; all but topo with the largest first."""


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """How many ops have each role and guilt."""

    roles: Mapping[Role, int]
    guilt: Mapping[Guilt, int]


@dataclass(frozen=True, slots=True)
class RoleRow:
    """An op with the split of its most suspicious output."""

    op: str
    type: str
    topo: int
    split: ErrorSplit
    team_notes: Annotated[tuple[Note, ...], "what was written of its originals"] = ()


@dataclass(frozen=True, slots=True)
class RoleTable:
    """The ops with a split; without a root-cause analysis there are none."""

    run: Run
    counts: Annotated[RoleCounts, "of all ops root-cause analysis says something of"]
    ops: Annotated[tuple[RoleRow, ...], "those of them that --where lets through"]
    judging: Annotated[Judging, FLAT]


@dataclass(frozen=True, slots=True)
class RolesQuestion(Question[RoleTable]):
    """What does each op of RUN do to the error?

    \b
    Roles:  introduces  makes more error than it was given
            carries     passes on what it was given
            amplifies   increases it      attenuates  reduces it
            clean       neither makes nor carries a notable error
            unknown     no reference could be run
    """

    name = "roles"
    example = "divergraph roles RUN --where role=amplifies --sort suspicion"

    run: RunName
    where: Annotated[
        str | None, Parameter("For example: role=amplifies amp>2", metavar="FILTER")
    ] = None
    order: Annotated[str, Parameter("The largest first.", name="sort", choices=ORDERS)] = "topo"

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RoleTable:
        """The ops the filter ``where`` takes, in this order.

        Raises:
            UnknownNameError: no such run (an imported graph has no roles).
            FilterError: the filter cannot be understood.
        """
        wanted = parse_filter(self.where) if self.where else None
        return role_table(store, self.run, wanted, order=self.order)


QUESTION = RolesQuestion


def role_table(
    store: GraphStore, run: str, where: OpFilter | None = None, *, order: str = "topo"
) -> RoleTable:
    """The ops of *run* root-cause analysis says something of, filtered, sorted by *order*.

    Raises:
        UnknownNameError: no such run (an imported graph has no roles).
    """
    record = find_run(store, run)
    if record is None:
        raise UnknownNameError("run", run)
    split = _split_rows(store, record)
    rows = split if where is None else _fitting(store, run, where, split)
    notes = notes_by_op(store, record)
    roles = Counter(row.split.role for row in split)
    guilt = Counter(row.split.guilt for row in split)
    return RoleTable(
        record,
        RoleCounts(
            {role: roles[role] for role in Role}, {degree: guilt[degree] for degree in Guilt}
        ),
        tuple(
            replace(row, team_notes=notes.get(row.op, ()))
            for row in (rows if order == "topo" else sorted(rows, key=_largest_first(order)))
        ),
        Judging.of(record),
    )


def _split_rows(store: GraphStore, run: Run) -> list[RoleRow]:
    if run.method is not Method.ROOT_CAUSE:
        return []
    worst: dict[int, RoleRow] = {}
    for one in output_errors(store, run):
        if one.split is None:
            continue
        row = worst.get(one.topo)
        if row is None or split_weight(one.split) > split_weight(row.split):
            worst[one.topo] = RoleRow(one.op, one.type, one.topo, one.split)
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
