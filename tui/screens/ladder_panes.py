"""The two ladders of the view of lineage: loading, drawing, one following the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content

from graphstore.model import Side
from tui.address import ScreenAddress
from tui.render.ladder_rows import Folding, LadderRows, LadderSteps
from tui.render.link_text import link_text
from tui.screens.base import ViewScreen
from tui.style import words as wording
from tui.widgets.lines import KeyLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail
    from tui.ladder import Ladders

_PANES = {Side.DEVICE: "#device", Side.GOLDEN: "#original"}
_TITLES = {Side.DEVICE: "Device", Side.GOLDEN: "Original"}
_DETAIL_DELAY = 0.15


class LadderPanes(ViewScreen):
    """Two ladders; the one without the cursor follows the other."""

    VIEW = "lineage"
    CRUMB = "Lineage"

    def __init__(self) -> None:
        super().__init__()
        self._ladders: Ladders | None = None
        self._steps: dict[Side, LadderSteps] = {}
        self._rows: dict[Side, LadderRows] = {}
        self._unfolded: dict[Side, frozenset[str]] = {}
        self._folding: dict[Side, Folding] = {}
        self._side, self._op = Side.DEVICE, ""
        self._detail: OpDetail | None = None
        self._awaited = ""

    def body(self) -> ComposeResult:
        """Both graphs, and what links the op under the cursor below."""
        glyphs = self.owner.settings.glyphs
        with Horizontal(id="ladders"):
            yield RowList(FixedRows(()), glyphs, id="device", empty="loading")
            yield RowList(FixedRows(()), glyphs, id="original", empty="loading")
        yield TextPane("Link", id="link")

    def on_mount(self) -> None:
        """Put the cursor into the device graph."""
        super().on_mount()
        for side, pane in _PANES.items():
            self.query_one(pane, RowList).name_pane(_TITLES[side])
        self._pane(Side.DEVICE).focus()

    def _pane(self, side: Side) -> RowList:
        return self.query_one(_PANES[side], RowList)

    def address(self) -> ScreenAddress:
        """The op under the cursor, and whose it is."""
        side = str(self._side) if self._side is Side.GOLDEN else ""
        return replace(super().address(), op=self._op, side=side)

    def load(self, address: ScreenAddress) -> None:
        """Ask for both graphs."""
        self._ladders, self._steps, self._rows, self._detail = None, {}, {}, None
        self._unfolded = dict.fromkeys(_PANES, frozenset())
        self._folding = dict.fromkeys(_PANES, Folding())
        for side in _PANES:
            self._pane(side).show(FixedRows(()), empty="loading")
        op, side = self._wanted(address)
        self.ask(
            "ladders", self.owner.session.ladders, lambda ladders: self._got(ladders, op, side)
        )

    def restore(self, address: ScreenAddress) -> None:
        """Go to another op of the same graphs."""
        op, side = self._wanted(address)
        if self._ladders is None:
            self.load(address)
        elif op and (op, side) != (self._op, self._side):
            self._go_to(side, op)

    def _wanted(self, address: ScreenAddress) -> tuple[str, Side]:
        session = self.owner.session
        side = Side.GOLDEN if address.side == Side.GOLDEN else Side.DEVICE
        return address.op or session.last_op or session.origin_from(-1, 0) or "", side

    def _got(self, ladders: Ladders, op: str, side: Side) -> None:
        self._ladders = ladders
        self.filled()
        self._fold(op, side)

    def _fold(self, op: str, side: Side) -> None:
        """Work out the rows of both graphs; with a million ops that takes seconds."""
        ladders, glyphs = self._ladders, self.owner.settings.glyphs
        assert ladders is not None
        before, foldings = self._steps, dict(self._folding)

        def steps_of(side: Side, folding: Folding) -> LadderSteps:
            same = side in before and before[side].folding == folding
            return before[side] if same else LadderSteps(ladders, side, folding, glyphs)

        self.ask(
            "fold",
            lambda: {side: steps_of(side, folding) for side, folding in foldings.items()},
            lambda steps: self._folded(steps, op, side),
        )

    def _folded(self, steps: dict[Side, LadderSteps], op: str, side: Side) -> None:
        """Show the rows as they are to be folded, with the cursor on *op* of *side*."""
        self._steps = steps
        numbers = steps[side].ladder.number
        self._side, self._op = side, op if op in numbers else next(iter(numbers), "")
        self.owner.session.jumps.update(self.address())
        self.set_focus(self._pane(side))  # at once, or the other list would still answer
        self._draw()

    def _draw(self) -> None:
        """Show both ladders with the cursor on the op, and on what is linked to it."""
        ladders = self._ladders
        if ladders is None or not self._steps:
            return
        other = Side.GOLDEN if self._side is Side.DEVICE else Side.DEVICE
        linked = ladders.linked(self._side, self._op)
        self._draw_side(self._side, (), self._op)
        self._draw_side(other, linked, linked[0] if linked else "")
        self._name_panes()
        self._ask_soon()
        self._show_link()
        self.query_one(KeyLine).draw()

    def _draw_side(self, side: Side, marked: tuple[str, ...], op: str) -> None:
        steps, glyphs = self._steps[side], self.owner.settings.glyphs
        pane = self._pane(side)
        number = steps.ladder.number
        unfolded = {
            steps.row_of(number[op_name])
            for op_name in self._unfolded[side]
            if steps.shows(number[op_name])
        }
        assert self._ladders is not None
        rows = LadderRows(self._ladders, steps, glyphs, unfolded=unfolded, marked=marked)
        self._rows[side] = rows
        at = pane.cursor
        if op:
            at = rows.index_of(max(0, steps.row_of(number[op])))
        no_graph = "no op here has a counterpart" if len(steps.ladder) else "the graph lists none"
        pane.show(rows, cursor=at, empty=no_graph)

    def _name_panes(self) -> None:
        for side, steps in self._steps.items():
            ladder, folding = steps.ladder, steps.folding
            what = wording.count(len(ladder), "op")
            parts = [_TITLES[side], what if ladder.is_graph else f"{what} by name"]
            if folding.depth is not None:
                parts.append(f"name spaces to depth {folding.depth}")
            if folding.linked_only:
                parts.append("linked only")
            self._pane(side).name_pane(", ".join(parts))

    def _show_link(self) -> None:
        ladders, side, op = self._ladders, self._side, self._op
        pane, glyphs = self.query_one("#link", TextPane), self.owner.settings.glyphs
        if ladders is None or not op:
            pane.show(lambda _: Content(""))
            return
        detail = self._detail if side is Side.DEVICE else None
        pane.name_pane(op)
        pane.show(lambda width: link_text(ladders, side, op, detail, glyphs, width))

    @on(RowList.Moved)
    def _moved(self, event: RowList.Moved) -> None:
        side = next((side for side in _PANES if self._pane(side) is event.rows), None)
        rows = None if side is None else self._rows.get(side)
        if side is None or rows is None or self.focused is not event.rows or event.index < 0:
            return
        op = rows.op(event.index)
        if (side, op) != (self._side, self._op):
            self._stand_on(side, op)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The other graph follows from now on."""
        for side, rows in self._rows.items():
            focused = event.widget is self._pane(side) is self.focused
            if focused and side is not self._side and len(rows):
                self._stand_on(side, rows.op(self._pane(side).cursor))

    def _stand_on(self, side: Side, op: str) -> None:
        """The cursor came to *op*: the other graph follows."""
        ladders = self._ladders
        if ladders is None:
            return
        changed = side is not self._side
        self._side, self._op = side, op
        other = Side.GOLDEN if side is Side.DEVICE else Side.DEVICE
        linked = ladders.linked(side, op)
        if changed:
            self._draw_side(side, (), "")
        self._draw_side(other, linked, linked[0] if linked else "")
        self._show_link()
        session = self.owner.session
        session.jumps.update(self.address())
        if side is Side.DEVICE:
            session.last_op = op
        self._ask_soon()

    def _ask_soon(self) -> None:
        """Ask for the tensors of a device op once the cursor rests on it."""
        op = self._op if self._side is Side.DEVICE else ""
        self._awaited = op
        if op:
            self.set_timer(_DETAIL_DELAY, lambda: self._rested(op))

    @property
    def waiting(self) -> bool:
        """True while the rows, or the tensors of the op under the cursor, are still to come."""
        return super().waiting or not self._steps or bool(self._awaited)

    def _rested(self, op: str) -> None:
        if op == self._awaited:
            self._awaited = ""
            self.ask("link", lambda: self.owner.session.detail(op), self._show_detail)

    def _show_detail(self, detail: OpDetail) -> None:
        self._detail = detail
        self._show_link()

    def _go_to(self, side: Side, op: str) -> None:
        """Put the cursor on *op* of *side*, unfolding what hides it."""
        steps = self._steps[side]
        number = steps.ladder.number[op]
        folding = self._folding[side]
        if folding.linked_only and not steps.shows(number):
            self._folding[side] = replace(folding, linked_only=False)
        self._fold(op, side)
