"""View 2: every op with its metrics; did the error start here or was it carried here?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.worker import get_current_worker

from divergraph.ask import op_order
from divergraph.ask.op_order import IN_GRAPH, IN_RUN, Order
from graphstore.errors import FilterError
from graphstore.filter import OpFilter, parse_filter
from graphstore.op_row import OpRow
from tui.address import ScreenAddress
from tui.keys import KeyScope, bindings
from tui.render.op_order_words import order_words
from tui.render.op_table import OpList, OpTable
from tui.screens.op_detail import DetailScreen
from tui.screens.rows_to_file import RowsToFile
from tui.style import words as wording
from tui.widgets.filter_bar import FilterBar, FilterInput
from tui.widgets.lines import KeyLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from collections.abc import Mapping


DETAIL_DELAY = 0.06
"""Seconds the cursor rests before the detail of its op is asked for."""


class OpsScreen(RowsToFile, DetailScreen):
    """The list of ops, the detail of the one under the cursor, the filter."""

    VIEW = "ops"
    CRUMB = "Ops"
    SCOPES = (KeyScope.OPS, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.OPS)
    SHOWN_KEYS = (
        "list.open",
        "filter.open",
        "list.sort",
        "list.reverse",
        "ops.wide",
        "ops.mark",
        "origin.first",
        "origin.next",
        "propagation.follow",
        "yank",
        "ops.export",
        "commands",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._ops: OpList | None = None
        self._table: OpTable | None = None
        self._order = IN_RUN
        self._where = ""
        self._wanted: OpFilter | None = None
        self._last_wanted: OpFilter | None = None
        self._marked: set[str] = set()
        self._goal = ""
        self._asked_for = ""
        self._last_op = ""
        self._rest: Timer | None = None

    def body(self) -> ComposeResult:
        """List, two panes about the op under the cursor, filter."""
        glyphs = self.owner.settings.glyphs
        yield RowList(FixedRows(()), glyphs, id="ops", empty="loading")
        with Horizontal(id="details"):
            yield TextPane("Op", id="facts")
            yield TextPane("Metrics", id="metrics")
        yield FilterBar(id="filter")

    def on_mount(self) -> None:
        """Put the cursor into the list."""
        super().on_mount()
        listed = self.query_one("#ops", RowList)
        listed.name_pane("Ops")
        listed.focus()

    @property
    def waiting(self) -> bool:
        """True while a key or a cursor move has not been followed by its question yet."""
        return super().waiting or self._rest is not None or self.query_one(FilterBar).waiting

    def address(self) -> ScreenAddress:
        """Op, filter and order shown."""
        row = self._row()
        usual = self._order == self._usual()
        return replace(
            super().address(),
            op=self._goal or ("" if row is None else row.id),
            where=self._where,
            sort="" if usual else self._order.column,
            descending=self._order.descending,
        )

    def load(self, address: ScreenAddress) -> None:
        """Ask for the ops of another target."""
        self._ops, self._table, self._detail, self._last_wanted = None, None, None, None
        self._marked, self._last_op = set(), ""
        self.query_one("#ops", RowList).show(FixedRows(()), empty="loading")
        self._take(address)
        self._note()
        self._ask()

    def restore(self, address: ScreenAddress) -> None:
        """Show another place in the same target."""
        self._take(address)
        self._arrange()

    def _take(self, address: ScreenAddress) -> None:
        usual = self._usual()
        is_sortable = address.sort in op_order.SORT_KEYS
        self._order = Order(address.sort if is_sortable else usual.column, address.descending)
        self._goal = self._asked_for = address.op
        self._set_filter(address.where)
        self.query_one(FilterBar).text = address.where

    def _usual(self) -> Order:
        return IN_RUN if self.owner.session.kind == "run" else IN_GRAPH

    def _ask(self) -> None:
        session, marked = self.owner.session, self._marked
        glyphs, in_run = self.owner.settings.glyphs, session.kind == "run"

        def load() -> tuple[OpList, Mapping[str, float]]:
            limits = session.overview().run.thresholds if in_run else {}
            return OpList(session.rows(), glyphs, in_run=in_run, marked=marked), limits

        self.ask("rows", load, self._got_rows)

    def _got_rows(self, ops_and_limits: tuple[OpList, Mapping[str, float]]) -> None:
        self._ops, self._limits = ops_and_limits
        self.filled()
        self._arrange()
        self.query_one(KeyLine).draw()

    def _set_filter(self, text: str) -> bool:
        """Take *text* as the filter; False, with the wrong part underlined, if it is none."""
        bar = self.query_one(FilterBar)
        try:
            wanted = parse_filter(text) if text.strip() else None
        except FilterError as error:
            hint = f" ({error.hint})" if error.hint else ""
            bar.show_wrong(error.start, error.end, f"{error.what}{hint}")
            return False
        self._where, self._wanted = text.strip(), wanted
        if wanted is not None:
            self._last_wanted = wanted
        return True

    @on(FilterBar.Changed)
    def _filter_changed(self, event: FilterBar.Changed) -> None:
        if self._set_filter(event.text):
            self._note()
            self._arrange()

    @on(FilterInput.Accepted)
    def _filter_accepted(self) -> None:
        self.query_one(FilterBar).flush()
        self.query_one("#ops").focus()

    @on(FilterInput.Cleared)
    def _filter_cleared(self) -> None:
        self._clear_filter()
        self.query_one("#ops").focus()

    def _clear_filter(self) -> None:
        self.query_one(FilterBar).text = ""
        self._set_filter("")
        self._note()
        self._arrange()

    def open_filter(self, text: str | None) -> None:
        """Let the user type a filter, or take *text* as one."""
        bar = self.query_one(FilterBar)
        if text is None:
            bar.focus_field()
        else:
            bar.text = text
            if self._set_filter(text):
                self._note()
                self._arrange()

    def _note(self) -> None:
        where = ["--where", self._where] if self._where else []
        self.owner.session.note("ops", self.owner.session.target, *where)

    def _arrange(self) -> None:
        if self._ops is None:
            return
        row = self._row()
        first = self.owner.session.origin_from(-1, 0) or ""
        self._goal = self._goal or (self._last_op or first if row is None else row.id)
        ops, wanted, order, goal = self._ops, self._wanted, self._order, self._goal

        def arrange() -> OpTable | None:
            worker = get_current_worker()
            if wanted is not None and not self.owner.session.read_attributes(ops.ops, wanted):
                return None  # another target is shown by now
            return ops.table(wanted, order, lambda: worker.is_cancelled)

        self.ask("arrange", arrange, lambda table: self._show(table, goal))

    def _show(self, table: OpTable | None, goal: str) -> None:
        """Show the filtered ops in order, with the cursor on *goal*."""
        if table is None:
            return
        self._table = table
        listed = self.query_one("#ops", RowList)
        at = table.index_of(goal) if goal else None
        if at is None and self._asked_for and self._wanted is not None:
            self.notify(f"{self._asked_for} is filtered out; esc clears")
        self._goal = self._asked_for = ""
        empty = "no op fits the filter; esc clears it" if len(table.ops) else "there is no op"
        listed.show(table, cursor=at or 0, empty=empty)
        falls = self._order.descending != (self._order.column in op_order.LARGEST_FIRST)
        listed.sort_shown(self._order.column, descending=falls)
        fitting, all_rows = len(table), len(table.ops)
        count = f"{wording.thousands(fitting)} of {wording.thousands(all_rows)}"
        sep = self.owner.settings.glyphs.separator
        words = order_words(self._order)
        listed.name_pane(f"Ops {sep} {count} {sep} {words}")
        self._say_filtered(fitting, all_rows)
        self.query_one(KeyLine).draw()
        self.owner.session.jumps.update(self.address())

    def _say_filtered(self, fitting: int, all_rows: int) -> None:
        bar = self.query_one(FilterBar)
        left_out = all_rows - fitting
        if bar.text.strip() == self._where:
            sep = self.owner.settings.glyphs.separator
            words = f"{fitting} shown, {left_out} filtered out {sep} esc clears"
            bar.show_right(words if self._where else "")

    @on(RowList.Moved, "#ops")
    def _moved(self, event: RowList.Moved) -> None:
        total = 0 if self._table is None else len(self._table)
        marks = f"{len(self._marked)} marked  " if self._marked else ""
        listed = event.rows
        listed.border_subtitle = Content(f"{marks}row {event.index + 1}/{total}")
        if not self._goal and self._table is not None:
            self.owner.session.jumps.update(self.address())
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(DETAIL_DELAY, self._rested)

    def _rested(self) -> None:
        self._rest = None
        row = self._row()
        if row is None:
            self._show_no_detail()
            return
        self._last_op = row.id
        if self._detail is None or self._detail.row.id != row.id:
            self.ask_detail(row.id, whole=False)

    @on(RowList.Opened, "#ops")
    def _open(self) -> None:
        row = self._row()
        if row is not None:
            self.ask_detail(row.id, whole=True)

    @on(RowList.SortAsked, "#ops")
    def _sort(self, event: RowList.SortAsked) -> None:
        if event.reverse:
            self._order = replace(self._order, descending=not self._order.descending)
        elif event.column in op_order.SORT_KEYS:
            self._order = Order(event.column)
        self._arrange()

    def _index(self) -> int | None:
        """The row under the cursor, None without one."""
        index = self.query_one("#ops", RowList).cursor
        return index if self._table is not None and 0 <= index < len(self._table) else None

    def _row(self) -> OpRow | None:
        index = self._index()
        return None if index is None or self._table is None else self._table.op(index)

    def same_query(self) -> tuple[str, str]:
        """What the op under the cursor was made of; of an imported graph, its ops."""
        if self.owner.session.kind == "graph":
            return "graph_ops", ""
        return ("lineage_of_device_op", self.current_op()) if self.current_op() else ("roles", "")

    def current_op(self) -> str:
        """The op under the cursor."""
        index = self._index()
        return "" if index is None or self._table is None else self._table.op_id(index)

    def current_topo(self) -> int:
        """The op under the cursor's place in execution order."""
        row = self._row()
        return -1 if row is None else row.topo

    def why_not(self, key_id: str) -> str | None:
        """Why a key of the list does nothing at present."""
        if key_id in {"ops.match_next", "ops.match_previous"} and self._last_wanted is None:
            return "no filter was typed yet"
        listed = {"list.open", "ops.mark", "ops.export", "list.sort", "list.reverse"}
        if key_id in listed and (self._table is None or not len(self._table)):
            return "no op is shown"
        return super().why_not(key_id)

    def action_close(self) -> None:
        """Restore a maximised pane, else clear the filter."""
        if self.maximized is not None:
            self.minimize()
        elif self._where or self.query_one(FilterBar).text:
            self._clear_filter()

    def action_wide(self) -> None:
        """Show all columns in full, or those that fit."""
        listed = self.query_one("#ops", RowList)
        listed.wide = not listed.wide

    def action_mark(self) -> None:
        """Mark the row under the cursor and go on, or unmark it."""
        row = self._row()
        if row is None or not self.allowed("ops.mark"):
            return
        self._marked.symmetric_difference_update({row.id})
        listed = self.query_one("#ops", RowList)
        listed.renew()
        if listed.cursor + 1 < len(listed.source):
            listed.cursor += 1
        else:
            self._moved(RowList.Moved(listed, listed.cursor))

    def action_next_match(self) -> None:
        """Go to the next row the last filter lets through."""
        self._match("ops.match_next", 1)

    def action_previous_match(self) -> None:
        """Go to the row before that the last filter lets through."""
        self._match("ops.match_previous", -1)

    def _match(self, key_id: str, direction: int) -> None:
        if not self.allowed(key_id) or self._table is None or self._last_wanted is None:
            return
        listed = self.query_one("#ops", RowList)
        at = self._table.beside(listed.cursor, self._last_wanted, direction)
        if at is None:
            self.notify("no shown op fits the last filter", severity="warning")
        else:
            listed.cursor = at

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """Name and row of the op under the cursor, address and command."""
        row = self._row()
        if row is None or self._table is None:
            return super().yank_choices()
        cells = self._table.row(self.query_one("#ops", RowList).cursor)
        text = "\t".join((cell.text + cell.tail).strip() for cell in cells)
        return {"name": ("n", row.id), "row": ("r", text), **super().yank_choices()}

    def action_export(self) -> None:
        """Write the marked rows, or all shown ones, as CSV."""
        if self.allowed("ops.export") and self._table is not None:
            marked = self._table.shown_and_marked
            rows = marked if len(marked) else self._table.shown
            self.write_rows(rows, f"{self.owner.session.target}-ops")
