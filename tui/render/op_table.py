"""The rows of the list of ops: filtered, in order, and as cells. Knows no widget state."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from divergraph.text.words import known, shape_text, undefined
from graphstore.model import Metric, MetricSet, OpState, Role
from graphstore.op_row import OpRow
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

ERROR_FLOOR, ERROR_DECADES = 1e-6, 6.0
"""The small bars run from a relative error of 1e-6 (lowest) to 1 (full), by decade."""
NEIGHBOURS = 3


class RowFilter(Protocol):
    """Anything that says which ops are wanted."""

    def matches(self, row: OpRow) -> bool:
        """True if *row* is to be shown."""


@dataclass(frozen=True, slots=True)
class Order:
    """By which column the rows are sorted."""

    column: str
    descending: bool = False


IN_RUN = Order("cos")
IN_GRAPH = Order("topo")


def state_style(state: OpState | None) -> str:
    """The cell style of a state."""
    return "" if state is None else _STYLES[state]


def value_style(state: OpState | None) -> str:
    """The style of a number that says something bad: of the state, without a background."""
    return "alarm" if state is OpState.BROKEN else state_style(state)


_STYLES = {
    OpState.ORIGIN: "origin",
    OpState.INHERITED: "inherited",
    OpState.DRIFTING: "drifting",
    OpState.EXPLAINED: "explained",
    OpState.CLEAN: "clean",
    OpState.BROKEN: "broken",
    OpState.NOT_COMPARED: "unknown",
}


def select(
    rows: Sequence[OpRow],
    numbers: Sequence[int],
    wanted: RowFilter | None,
    stopped: Callable[[], bool],
) -> Sequence[int] | None:
    """Those of *numbers*, in their order, whose rows *wanted* lets through, or None if
    *stopped* in between."""
    if wanted is None:
        return numbers
    kept: list[int] = []
    for start in range(0, len(numbers), 2000):
        if stopped():
            return None
        chunk = numbers[start : start + 2000]
        kept.extend(number for number in chunk if wanted.matches(rows[number]))
    return kept


def arrange(rows: Sequence[OpRow], numbers: Sequence[int], order: Order) -> list[int]:
    """*numbers* sorted by *order*, equal ones by topo.

    Ascending by a metric means worst first, NaN worst of all. Ops without a value come
    last in either direction.
    """
    key = SORT_KEYS[order.column]
    known: list[tuple[float | str, int]] = []
    unknown: list[int] = []
    for number in numbers:
        value = key(rows[number])
        if value is None:
            unknown.append(number)
        else:
            known.append((value, number))
    known.sort(key=lambda item: item[1])
    known.sort(key=lambda item: item[0], reverse=order.descending)
    return [number for _, number in known] + sorted(unknown)


def _rising(metric: Metric) -> Callable[[OpRow], float | None]:
    """Key of a metric that grows with the error: the worst has the smallest key."""

    def key(row: OpRow) -> float | None:
        return _largest(_defined(row, metric))

    return key


def _cosine(row: OpRow) -> float | None:
    value = _defined(row, Metric.COSINE_SIMILARITY)
    if value is None:
        return None
    return -math.inf if math.isnan(value) or row.state is OpState.BROKEN else value


def _defined(row: OpRow, metric: Metric) -> float | None:
    """The metric of the row; None where it has no value, so that it comes last, though NaN in a
    tensor comes first."""
    if row.metrics is None or undefined(row.metrics, metric):
        return None
    return known(row.metrics, metric)


def _gain(row: OpRow) -> float | None:
    return _largest(row.gain)


def _largest(value: float | None) -> float | None:
    return None if value is None else (-math.inf if math.isnan(value) else -value)


_ROLES = (
    Role.INTRODUCES,
    Role.AMPLIFIES,
    Role.CARRIES,
    Role.ATTENUATES,
    Role.CLEAN,
    Role.UNKNOWN,
)
STATE_ORDER = (
    OpState.BROKEN,
    OpState.ORIGIN,
    OpState.INHERITED,
    OpState.DRIFTING,
    OpState.EXPLAINED,
    OpState.CLEAN,
    OpState.NOT_COMPARED,
)
"""The states, worst first."""
_SORTED_STATES = STATE_ORDER[:-1]

SORT_KEYS: dict[str, Callable[[OpRow], float | str | None]] = {
    "state": lambda row: _SORTED_STATES.index(row.state) if row.state in _SORTED_STATES else None,
    "topo": lambda row: row.topo,
    "op": lambda row: row.id,
    "type": lambda row: row.type,
    "dtype": lambda row: row.dtype or None,
    "shape": lambda row: None if row.shape is None else -math.prod(d or 1 for d in row.shape),
    "layout": lambda row: row.layout or None,
    "subgraph": lambda row: row.subgraph or None,
    "cos": _cosine,
    "max": _rising(Metric.MAX_ABSOLUTE_ERROR),
    "rel": _rising(Metric.RELATIVE_EUCLIDEAN_DISTANCE),
    "gain": _gain,
    "from": lambda row: row.origins[0] if row.origins else None,
    "role": lambda row: None if row.split is None else _ROLES.index(row.split.role),
    "susp": lambda row: _largest(None if row.split is None else row.split.suspicion),
    "intro": lambda row: _largest(None if row.split is None else row.split.introduced),
}

SORT_WORDS = {
    "cos": ("worst cos first, NaN as worst", "best cos first"),
    "max": ("largest error first, NaN as worst", "smallest error first"),
    "rel": ("largest error first, NaN as worst", "smallest error first"),
    "gain": ("largest gain first", "smallest gain first"),
    "state": ("worst state first", "best state first"),
    "shape": ("largest first", "smallest first"),
    "role": ("those that make errors first", "clean ones first"),
    "susp": ("most suspicious first", "least suspicious first"),
    "intro": ("largest introduced error first", "smallest first"),
}


LARGEST_FIRST = {"max", "rel", "gain", "shape", "susp", "intro"}
"""Columns whose worst or first value is the largest number."""


def order_words(order: Order) -> str:
    """The order as a phrase for the pane's title."""
    ascending, descending = SORT_WORDS.get(
        order.column, (f"by {order.column}", f"by {order.column}, reversed")
    )
    return descending if order.descending else ascending


@dataclass(frozen=True)
class OpTable:
    """A view of *rows*: those of ``numbers`` in that order, as a :class:`RowSource`."""

    rows: Sequence[OpRow]
    numbers: Sequence[int]
    glyphs: Glyphs
    in_run: bool
    marked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self._columns())
        object.__setattr__(self, "topo_of", {row.id: row.topo for row in self.rows})

    columns: tuple[ListColumn, ...] = field(init=False)
    topo_of: dict[str, int] = field(init=False)

    def showing(self, numbers: Sequence[int]) -> OpTable:
        """The same ops, others of them or in another order; nothing is measured anew."""
        other = copy.copy(self)
        object.__setattr__(other, "numbers", numbers)
        return other

    def __len__(self) -> int:
        return len(self.numbers)

    def op(self, index: int) -> OpRow:
        """The op of one row."""
        return self.rows[self.numbers[index]]

    def index_of(self, op: str) -> int | None:
        """The row of an op, None if it is not shown."""
        return next((i for i, n in enumerate(self.numbers) if self.rows[n].id == op), None)

    def shown(self) -> Iterator[OpRow]:
        """The ops in order."""
        return (self.rows[number] for number in self.numbers)

    def row(self, index: int) -> tuple[Cell, ...]:
        """The cells of one row."""
        number = self.numbers[index]
        row = self.rows[number]
        return tuple(_CELLS[column.id](self, row, number) for column in self.columns)

    def _columns(self) -> tuple[ListColumn, ...]:
        rows = self.rows
        names = max((width_of(row.id) + (3 if row.fused > 1 else 0) for row in rows), default=0)
        types = max((len(row.type) for row in rows), default=0)
        shapes = max((len(shape_text(row.shape)) for row in rows), default=0)
        dtypes = max((len(wording.dtype_text(row.dtype)) for row in rows), default=0)
        layouts = max((len(row.layout) for row in rows), default=0)
        bodies = max((len(row.subgraph) for row in rows), default=0)
        topo = max(4, len(str(len(rows))))
        columns = [
            ListColumn("mark", "", 1, sticky=True, sortable=False),
            ListColumn("topo", "topo", topo, align="right", sticky=True),
            ListColumn("op", "op", 18, names, cut="left", sticky=True),
            ListColumn("type", "type", 8, types, priority=2),
            ListColumn("dtype", "dtype", 5, dtypes, priority=5),
            ListColumn("shape", "shape", 8, shapes, priority=4),
        ]
        if self.in_run:
            columns[0] = ListColumn("state", "", 2, sticky=True)
            columns += self._run_columns()
        columns.append(ListColumn("layout", "layout", 6, layouts, priority=8))
        if bodies:
            columns.append(ListColumn("subgraph", "sub-graph", 9, bodies, priority=9))
        return tuple(columns)

    def _run_columns(self) -> list[ListColumn]:
        g = self.glyphs
        split = any(row.split is not None for row in self.rows)
        columns = [
            ListColumn("cos", "cos", 8, align="right"),
            ListColumn("max", f"max|{g.delta}|", 8, align="right", priority=6 if split else 1),
            ListColumn("rel", "rel.err", 8, align="right", priority=3),
        ]
        if any(row.gain is not None for row in self.rows):
            columns.append(ListColumn("gain", "gain", 6, 7, align="right", priority=4))
        if split:
            columns += [
                ListColumn("susp", "susp", 6, 7, align="right", priority=1),
                ListColumn("role", "role", 10, priority=3),
                ListColumn("intro", "intro", 7, 8, align="right", priority=8),
            ]
        window = 2 * NEIGHBOURS + 1
        return [
            *columns,
            ListColumn("err", "err", window, priority=6, sortable=False),
            ListColumn("from", "from", 8, 10, priority=2),
        ]

    def err(self, number: int) -> str:
        """The error of the op and its neighbours in execution order, as small bars."""
        bars = ""
        for at in range(number - NEIGHBOURS, number + NEIGHBOURS + 1):
            row = self.rows[at] if 0 <= at < len(self.rows) else None
            bars += " " if row is None else _bar(row.metrics, self.glyphs)
        return bars

    def from_(self, row: OpRow) -> str:
        """Where the op's error comes from: itself, or the topo numbers of its origins."""
        if row.state is OpState.ORIGIN:
            return "origin"
        if row.reason is not None and row.metrics is None:
            return wording.REASON_SHORT[row.reason]
        places = sorted(self.topo_of[op] for op in row.origins if op in self.topo_of)
        return ",".join(map(str, places)) or self.glyphs.dash


class OpList:
    """The ops of one target, filtered and in order: what stays the same while a filter is
    typed (widths, orders) is found once. Used from threads; knows no widget."""

    def __init__(
        self, rows: Sequence[OpRow], glyphs: Glyphs, *, in_run: bool, marked: set[str]
    ) -> None:
        self.rows = rows
        self._all = OpTable(rows, range(len(rows)), glyphs, in_run, marked)
        self._orders: dict[Order, Sequence[int]] = {}

    def table(
        self, wanted: RowFilter | None, order: Order, stopped: Callable[[], bool]
    ) -> OpTable | None:
        """The rows *wanted* lets through in *order*, or None if *stopped* in between."""
        if order not in self._orders:
            self._orders[order] = arrange(self.rows, range(len(self.rows)), order)
        numbers = select(self.rows, self._orders[order], wanted, stopped)
        return None if numbers is None else self._all.showing(numbers)


def _bar(metrics: MetricSet | None, glyphs: Glyphs) -> str:
    if metrics is None:
        return " "
    error = metrics.relative_euclidean_distance
    if not math.isfinite(error):
        return glyphs.bars[-1]
    return glyphs.bar(max(1e-9, 1 + math.log10(max(error, ERROR_FLOOR)) / ERROR_DECADES))


def _mark(table: OpTable, row: OpRow, _: int) -> Cell:
    marked = table.glyphs.marked if row.id in table.marked else " "
    if not table.in_run:
        return Cell(marked, "linked")
    return Cell(table.glyphs.state(row.state), state_style(row.state), marked, "linked")


def _name(table: OpTable, row: OpRow, _: int) -> Cell:
    style = value_style(row.state) if row.state in {OpState.ORIGIN, OpState.BROKEN} else ""
    if row.fused > 1:
        return Cell(row.id, style, f" {table.glyphs.fused}{row.fused}", "fused")
    return Cell(row.id, style)


def _metric(table: OpTable, row: OpRow, metric: Metric) -> Cell:
    text = wording.figure(row.metrics, metric, table.glyphs)
    if row.metrics is None:
        return Cell(text, "quiet")
    return Cell(text, value_style(row.state) if metric in row.failed else "")


def _susp(table: OpTable, row: OpRow, _: int) -> Cell:
    if row.split is None:
        return Cell("", "quiet")
    style = wording.GUILT_STYLES[row.split.guilt]
    return Cell(wording.gain(row.split.suspicion, table.glyphs), style)


def _role(_: OpTable, row: OpRow, __: int) -> Cell:
    if row.split is None:
        return Cell("", "quiet")
    return Cell(row.split.role.value, wording.ROLE_STYLES[row.split.role])


_CELLS: dict[str, Callable[[OpTable, OpRow, int], Cell]] = {
    "mark": _mark,
    "state": _mark,
    "topo": lambda _, row, __: Cell(str(row.topo), "quiet"),
    "op": _name,
    "type": lambda _, row, __: Cell(row.type),
    "dtype": lambda _, row, __: Cell(wording.dtype_text(row.dtype)),
    "shape": lambda _, row, __: Cell(shape_text(row.shape)),
    "layout": lambda _, row, __: Cell(row.layout),
    "subgraph": lambda _, row, __: Cell(row.subgraph),
    "cos": lambda table, row, _: _metric(table, row, Metric.COSINE_SIMILARITY),
    "max": lambda table, row, _: _metric(table, row, Metric.MAX_ABSOLUTE_ERROR),
    "rel": lambda table, row, _: _metric(table, row, Metric.RELATIVE_EUCLIDEAN_DISTANCE),
    "gain": lambda table, row, _: Cell(wording.gain(row.gain, table.glyphs)),
    "susp": _susp,
    "role": _role,
    "intro": lambda table, row, _: Cell(
        wording.small(None if row.split is None else row.split.introduced, table.glyphs)
    ),
    "err": lambda table, row, number: Cell(table.err(number), value_style(row.state)),
    "from": lambda table, row, _: Cell(
        table.from_(row), value_style(row.state) if row.origins or row.metrics else "quiet"
    ),
}
