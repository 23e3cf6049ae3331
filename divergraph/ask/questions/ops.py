"""The ops of a run or graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.facts import OpPage, find_run, op_numbers
from divergraph.ask.few_rows import rows_of, rows_soon
from divergraph.ask.memory.notes import noting
from divergraph.ask.op_order import ORDERS, Order
from divergraph.ask.question import OneSide, Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.filter import parse_filter
from graphstore.gc_paused import gc_paused
from graphstore.model import Side
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True, eq=False)
class NotedOps(Collection[OpRow]):
    """Rows of ops with their notes, made anew whenever they are gone through: of a million a few
    thousand are held."""

    rows: Sequence[OpRow]
    noted: Callable[[OpRow], OpRow]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[OpRow]:
        return map(self.noted, self.rows)

    def __contains__(self, row: object) -> bool:
        return any(op_row == row for op_row in self)


@dataclass(frozen=True, slots=True)
class OpsAnswer:
    """Rows of ops, with what was written of their originals."""

    ops: Sequence[OpRow]


@dataclass(frozen=True, slots=True)
class OpsQuestion(Question[OpsAnswer]):
    """Which ops has a run or graph, and how do they fare?

    ``order`` is a key of ``SORT_KEYS``, with a dash in front if the last come first; of all in
    this order those behind ``after`` are listed, ``limit`` at the most.
    """

    name = "ops"
    graphs = True
    shapes = ("OpsAnswer",)

    run: TargetName
    where: Annotated[
        str | None, Parameter("For example: cos<0.99 type:MatMul* !ns:grad", metavar="FILTER")
    ] = None
    side: OneSide = Side.DEVICE
    order: Annotated[
        str,
        Parameter(
            f"By {', '.join(ORDERS)}: the worst first; with a dash, the best.",
            name="sort",
            metavar="[-]COLUMN",
            choices=tuple(sign + column for column in ORDERS for sign in ("", "-")),
        ),
    ] = "topo"
    after: Annotated[
        str | None, Parameter("List only those after this op: the next page.", metavar="OP")
    ] = None
    limit: Annotated[
        int | None,
        Parameter("List N at most, and say how many more there are.", metavar="N", minimum=1),
    ] = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> OpsAnswer:
        """Those the filter ``where`` takes.

        Raises:
            FilterError: the filter cannot be understood.
        """
        _, numbers = self.numbers(store)
        with gc_paused():
            return OpsAnswer(list(self.listed(store, numbers)))

    def numbers(self, store: GraphStore) -> tuple[Sequence[str], Sequence[int]]:
        """The ids of all ops and the numbers of the same ones, for who has some of their rows
        already.

        Raises:
            FilterError: the filter cannot be understood.
        """
        wanted = parse_filter(self.where) if self.where else None
        order = Order(self.order.removeprefix("-"), self.order.startswith("-"))
        page = OpPage(order, self.after, self.limit)
        ids, numbers = op_numbers(store, self.run, self.side, wanted, page)
        return ids, numbers.tolist()

    def listed(self, store: GraphStore, numbers: Sequence[int]) -> NotedOps:
        """The ops of these numbers, with what was written of them; no store need be open when
        their rows are made."""
        rows = rows_of(store, self.run, numbers, self.side)
        return NotedOps(rows, noting(store, find_run(store, self.run)))

    def streamed(self, store: GraphStore, numbers: Sequence[int]) -> Iterator[OpRow]:
        """The same, read as they are gone through."""
        noted = noting(store, find_run(store, self.run))
        return map(noted, rows_soon(store, self.run, numbers, self.side))


QUESTION = OpsQuestion
