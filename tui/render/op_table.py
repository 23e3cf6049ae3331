"""The rows of the list of ops: filtered, in order, and as cells. Knows no widget state."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from divergraph.ask.op_order import Order, arrange
from divergraph.text.words import shape_text
from graphstore.columns.coded import Bool, Coded, Int
from graphstore.columns.op_columns import OpColumns, OpSelection
from graphstore.model import Metric, OpState
from graphstore.op_row import OpRow
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

if TYPE_CHECKING:
    from graphstore.filter import OpFilter

ERROR_FLOOR, ERROR_DECADES = 1e-6, 6.0
"""The small bars run from a relative error of 1e-6 (lowest) to 1 (full), by decade."""
NEIGHBOURS = 3
NAME_ROOM = 30
"""Cells of an op's name before other columns leave: names tell rows apart, not types."""
_BATCH = 8192


class RowFilter(Protocol):
    """Anything that says which ops are wanted."""

    def mask(self, ops: OpColumns) -> Bool:
        """The ops that are to be shown."""


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


def widest_name(names: Iterable[str], more: Int | None = None) -> int:
    """The cells the widest of *names* takes, with *more* cells behind each."""
    widths = np.asarray(list(chain.from_iterable(map(_widths, _batches(names)))), dtype=np.int32)
    if more is not None:
        widths = widths + more
    return int(widths.max()) if len(widths) else 0


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(names)
    while batch := list(islice(waiting, _BATCH)):
        yield batch


def _widths(names: Sequence[str]) -> Iterable[int]:
    """The cells each name takes; most are plain, which is seen of many at once."""
    together = "".join(names)
    return map(len if together.isascii() and together.isprintable() else width_of, names)


def widest(column: Coded[str]) -> int:
    """The length of the longest text of a column."""
    return max(map(len, column.values), default=0)


@dataclass(frozen=True)
class OpTable:
    """A view of *ops*: those of ``numbers`` in that order, as a :class:`RowSource`."""

    ops: OpColumns
    numbers: Int
    glyphs: Glyphs
    in_run: bool
    marked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self._columns())

    columns: tuple[ListColumn, ...] = field(init=False)
    _fits: list[tuple[OpFilter, npt.NDArray[np.intp]]] = field(
        default_factory=list, init=False, repr=False
    )

    def showing(self, numbers: Int) -> OpTable:
        """The same ops, others of them or in another order; nothing is measured anew."""
        other = copy.copy(self)
        object.__setattr__(other, "numbers", numbers)
        object.__setattr__(other, "_fits", [])
        return other

    def __len__(self) -> int:
        return len(self.numbers)

    def op(self, index: int) -> OpRow:
        """The op of one row."""
        return self.ops[int(self.numbers[index])]

    def op_id(self, index: int) -> str:
        """The id of the op of one row."""
        return self.ops.ids[int(self.numbers[index])]

    def index_of(self, op: str) -> int | None:
        """The row of an op, None if it is not shown."""
        number = self.ops.number.get(op)
        rows = np.flatnonzero(self.numbers == (-1 if number is None else number))
        return int(rows[0]) if len(rows) else None

    def beside(self, index: int, wanted: OpFilter, direction: int) -> int | None:
        """The next row (1) or the one before (-1) that *wanted* lets through, around the end;
        None if there is none. The last filter's rows are kept."""
        if not self._fits or self._fits[0][0] != wanted:
            rows = np.flatnonzero(wanted.mask(self.ops)[self.numbers])
            self._fits[:] = [(wanted, rows)]
        fitting = self._fits[0][1]
        if not len(fitting):
            return None
        if direction > 0:
            at = int(np.searchsorted(fitting, index, side="right")) % len(fitting)
        else:
            at = int(np.searchsorted(fitting, index)) - 1
        return int(fitting[at])

    @property
    def shown(self) -> OpSelection:
        """The ops in order."""
        return OpSelection(self.ops, self.numbers)

    @property
    def shown_and_marked(self) -> OpSelection:
        """Those of them that are marked."""
        marked = [self.ops.number[op] for op in self.marked if op in self.ops.number]
        return OpSelection(self.ops, self.numbers[np.isin(self.numbers, marked)])

    def row(self, index: int) -> tuple[Cell, ...]:
        """The cells of one row."""
        number = int(self.numbers[index])
        row = self.ops[number]
        return tuple(_CELLS[column.id](self, row, number) for column in self.columns)

    def _columns(self) -> tuple[ListColumn, ...]:
        ops = self.ops
        dtypes = ops.dtypes.mapped(wording.dtype_text)
        bodies = widest(ops.subgraphs)
        topo = max(4, len(str(len(ops))))
        names = widest_name(ops.ids, 3 * (ops.fused > 1))
        columns = [
            ListColumn("mark", "", 1, sticky=True, sortable=False),
            ListColumn("topo", "topo", topo, align="right", sticky=True),
            ListColumn("op", "op", max(18, min(NAME_ROOM, names)), names, cut="name", sticky=True),
            ListColumn("type", "type", 8, widest(ops.types), priority=2),
            ListColumn("dtype", "dtype", 5, widest(dtypes), priority=5),
            ListColumn("shape", "shape", 8, widest(ops.shapes.mapped(shape_text)), priority=4),
        ]
        if self.in_run:
            columns[0] = ListColumn("state", "", 2, sticky=True)
            columns += self._run_columns()
        columns.append(ListColumn("layout", "layout", 6, widest(ops.layouts), priority=8))
        if bodies:
            columns.append(ListColumn("subgraph", "sub-graph", 9, bodies, priority=9))
        return tuple(columns)

    def _run_columns(self) -> list[ListColumn]:
        g = self.glyphs
        split = bool(np.any(self.ops.judged >= 0))
        columns = [
            ListColumn("cos", "cos", 8, align="right"),
            ListColumn("max", f"max|{g.delta}|", 8, align="right", priority=6 if split else 1),
            ListColumn("rel", "rel.err", 8, align="right", priority=3),
        ]
        if not np.all(np.isnan(self.ops.gain)):
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
        ops, bars = self.ops, ""
        errors = ops.metrics.numbers[Metric.RELATIVE_EUCLIDEAN_DISTANCE.value]
        for at in range(number - NEIGHBOURS, number + NEIGHBOURS + 1):
            place = int(ops.measured[at]) if 0 <= at < len(ops) else -1
            bars += " " if place < 0 else _bar(float(errors[place]), self.glyphs)
        return bars

    def from_(self, row: OpRow) -> str:
        """Where the op's error comes from: itself, or the topo numbers of its origins."""
        if row.state is OpState.ORIGIN:
            return "origin"
        if row.reason is not None and row.metrics is None:
            return wording.REASON_SHORT[row.reason]
        number = self.ops.number
        places = sorted(number[op] for op in row.origins if op in number)
        return ",".join(map(str, places)) or self.glyphs.dash


class OpList:
    """The ops of one target, filtered and in order: what stays the same while a filter is
    typed (widths, orders) is found once. Used from threads; knows no widget."""

    def __init__(self, ops: OpColumns, glyphs: Glyphs, *, in_run: bool, marked: set[str]) -> None:
        self.ops = ops
        self._all = OpTable(ops, np.arange(len(ops), dtype=np.int32), glyphs, in_run, marked)

    def table(
        self, wanted: RowFilter | None, order: Order, stopped: Callable[[], bool]
    ) -> OpTable | None:
        """The rows *wanted* lets through in *order*, or None if *stopped* in between."""
        numbers = arrange(self.ops, order)
        if wanted is not None and not stopped():
            numbers = numbers[wanted.mask(self.ops)[numbers]]
        return None if stopped() else self._all.showing(numbers)


def _bar(error: float, glyphs: Glyphs) -> str:
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
