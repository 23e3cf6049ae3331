"""A page of a table of ops: filtered, sorted, and with links to the other pages of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from divergraph.ask.facts import OpListing, load_facts, op_listing
from divergraph.ask.op_order import IN_GRAPH, LARGEST_FIRST, SORT_KEYS, STATE_ORDER, Order
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.filter import OpFilter, parse_filter, quoted
from graphstore.model import OpState, Side

ROWS = 50
_MOST = 1 << 31
_COLUMNS = (
    ("state", "state", False),
    ("topo", "#", True),
    ("op", "op", False),
    ("type", "type", False),
    ("shape", "shape", False),
    ("cos", "cosine", True),
    ("rel", "rel. error", True),
    ("max", "max |Δ|", True),
    ("susp", "suspicion", True),
    ("from", "comes from", False),
)
_OF_GRAPH = ("topo", "op", "type", "shape")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its sort key, its title, how it is sorted now (as ``aria-sort`` says it), and the
    order that a click on it gives."""

    key: str
    title: str
    is_number: bool
    sorted: str
    next_order: str


@dataclass(frozen=True, slots=True)
class TableWish:
    """What is wanted of the table, as the address says it; ``sort`` is empty for the usual
    ``order``."""

    where: str
    state: str
    type: str
    side: Side
    order: str
    sort: str
    page: int

    @classmethod
    def of(cls, params: QueryParams, usual: Order = IN_GRAPH) -> TableWish:
        """What the parameters say; without another wish the ops are in their *usual* order.

        Raises:
            InputError: a parameter is none of those that are offered.
        """
        order, state = params.get("sort") or usual.column, params.get("state", "")
        page, side = params.get("page") or "1", params.get("side") or Side.DEVICE.value
        if order.removeprefix("-") not in SORT_KEYS:
            raise InputError("ops cannot be sorted by that", where="sort")
        if state and state not in list(OpState):
            raise InputError("there is no such state", where="state")
        if side not in list(Side):
            raise InputError("there is no such side", where="side")
        if not page.isascii() or not page.isdigit() or not 0 < int(page) < _MOST:
            raise InputError("a page has a number from 1 on", where="page")
        golden = side == Side.GOLDEN and not params.get("sort")
        order = IN_GRAPH.column if golden else order
        where = params.get("where", "")
        return cls(
            where,
            state,
            params.get("type", ""),
            Side(side),
            order,
            params.get("sort", ""),
            int(page),
        )

    def filters(self) -> Sequence[OpFilter]:
        """What ops have to pass.

        Raises:
            FilterError: the filter cannot be understood.
        """
        texts = [self.where] if self.where.strip() else []
        texts += [f"state:{quoted(self.state)}"] if self.state else []
        texts += [f"type:{quoted(self.type)}"] if self.type else []
        return [parse_filter(text) for text in texts]

    def query(self, **other: object) -> Mapping[str, object]:
        """It as parameters of an address, with *other* ones; what is usual is left out."""
        values = {
            "where": self.where,
            "state": self.state,
            "type": self.type,
            "side": "" if self.side is Side.DEVICE else self.side.value,
            "sort": self.sort,
            "page": "" if self.page == 1 else self.page,
        }
        return values | other


@dataclass(frozen=True, slots=True)
class TablePage:
    """A page of the ops that were wanted, with what a template shows around it."""

    wish: TableWish
    listing: OpListing
    columns: Sequence[TableColumn]
    states: Sequence[OpState]
    types: Mapping[str, int]
    """The op types of that side, and of how many ops each is, the most frequent first."""

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.listing.total // ROWS))

    @property
    def last(self) -> int:
        """The place of the last row shown, counted from 1."""
        return self.listing.first + len(self.listing.rows)


def op_table(store: GraphStore, target: str, wish: TableWish, *, in_run: bool = True) -> TablePage:
    """The page of the table.

    Raises:
        FilterError: the filter cannot be understood.
        UnknownNameError: no such run or graph.
    """
    order = Order(wish.order.removeprefix("-"), wish.order.startswith("-"))
    first = (wish.page - 1) * ROWS
    listing = op_listing(
        store, target, wish.side, wish.filters(), order, range(first, first + ROWS)
    )
    plain = not in_run or wish.side is Side.GOLDEN
    columns = [
        _column(*column, order) for column in _COLUMNS if not plain or column[0] in _OF_GRAPH
    ]
    types = load_facts(store, target, wish.side).rows.types.counted()
    by_count = dict(sorted(types.items(), key=lambda item: (-item[1], item[0])))
    return TablePage(wish, listing, columns, STATE_ORDER, by_count)


def _column(key: str, title: str, is_number: bool, order: Order) -> TableColumn:
    is_sorted = order.column == key
    falls = is_sorted and order.descending != (key in LARGEST_FIRST)
    direction = ("descending" if falls else "ascending") if is_sorted else ""
    following = f"-{key}" if is_sorted and not order.descending else key
    return TableColumn(key, title, is_number, direction, following)
