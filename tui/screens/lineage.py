"""View 3: the device graph beside the original graph, with the links between their ops."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from graphstore.model import Side
from tui.keys import KeyScope, bindings
from tui.messages import OpenOp
from tui.screens.edges import Neighbour
from tui.screens.ladder_panes import LadderPanes
from tui.screens.windows.line_form import LineForm
from tui.widgets.row_list import RowList


class LineageScreen(LadderPanes):
    """What an op of one graph is in the other, and going along edges and links."""

    SCOPES = (KeyScope.LINEAGE, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.LINEAGE)
    SHOWN_KEYS = (
        "pane.next",
        "list.open",
        "lineage.unfold",
        "lineage.linked",
        "lineage.coarser",
        "filter.open",
        "lineage.details",
        "part.start",
        "part.end",
        "yank",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._sought = ""

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        """Unfold a name space or a fused op; go to what is linked."""
        rows, side = self._rows.get(self._side), self._side
        if rows is None or event.rows is not self._pane(side):
            return
        row, below = rows.place(event.index)
        if below:
            self._go_to(Side.GOLDEN if side is Side.DEVICE else Side.DEVICE, below)
        elif rows.is_group(event.index):
            folding = self._folding[side]
            opened = folding.opened | {int(rows.steps.first[row])}
            self._folding[side] = replace(folding, opened=opened)
            self._fold(self._op, side)
        else:
            self._unfolded[side] ^= {self._op}
            self._draw()

    def action_unfold(self) -> None:
        """Show what every op is made of where that is more than one, or nothing of it."""
        ladders, side = self._ladders, self._side
        if not self.allowed("lineage.unfold") or ladders is None:
            return
        several = ladders.fused[side]
        self._unfolded[side] = frozenset() if self._unfolded[side] else several
        if not several:
            self.notify("every op here has one counterpart at most", severity="warning")
        self._draw()

    def action_linked_only(self) -> None:
        """Leave out the ops without a counterpart, or show them again."""
        if self.allowed("lineage.linked"):
            for side, folding in self._folding.items():
                self._folding[side] = replace(folding, linked_only=not folding.linked_only)
            self._fold(self._op, self._side)

    def action_fold(self, direction: int) -> None:
        """Fold larger name spaces (-1), or smaller ones and in the end none (1)."""
        if not self.allowed("lineage.coarser") or self._ladders is None:
            return
        for side, folding in self._folding.items():
            deepest = self._ladders.of(side).depth
            now = deepest + 1 if folding.depth is None else folding.depth
            depth = max(1, now + direction) if deepest else None
            new_depth = depth if depth is not None and depth <= deepest else None
            self._folding[side] = replace(folding, depth=new_depth, opened=frozenset())
        self._fold(self._op, self._side)

    def show_neighbour(self, op: str) -> None:
        """Stay in this view when going along an edge."""
        self._go_to(self._side, op)

    def action_edge(self, direction: int) -> None:
        """Go along an edge of the graph the cursor is in."""
        if self._side is Side.DEVICE or self._ladders is None:
            super().action_edge(direction)
            return
        before = direction < 0
        neighbour_ops = self._ladders.original.beside(
            self._ladders.original.number[self._op], before=before
        )
        neighbours = [Neighbour(op, "", "", "") for op in neighbour_ops]
        self.go_along(self._op, neighbours, before=before)

    def action_open_filter(self) -> None:
        """Search a name in both graphs."""
        if self.allowed("filter.open"):
            form = LineForm(self.owner.settings.glyphs, "Find an op", note="in both graphs")
            self.app.push_screen(form, self._search)

    def _search(self, text: str | None) -> None:
        if text:
            self._sought = text
            self.action_found(0)

    def action_found(self, direction: int) -> None:
        """Go to the next op whose name holds what was searched for."""
        ladders = self._ladders
        if ladders is None or not self._sought:
            self.notify("nothing was searched for; / searches", severity="warning")
            return
        after = ladders.of(self._side).number.get(self._op, -1) if direction else -1
        place = ladders.found(self._sought, self._side, after, whole=not direction)
        if place is None:
            self.notify(f"no op of either graph is called {self._sought}", severity="warning")
        else:
            side, number = place
            self._go_to(side, ladders.of(side).ids[number])

    def why_not(self, key_id: str) -> str | None:
        """Why a key of this view does nothing at present."""
        if self._ladders is None and (key_id == "filter.open" or key_id.startswith("lineage.")):
            return "still loading"
        return super().why_not(key_id)

    def action_details(self) -> None:
        """Show the op, or the device op that stands for it, in the list of ops."""
        op = self.current_op()
        if op:
            self.post_message(OpenOp(op))
        else:
            self.notify("no device op stands for it", severity="warning")

    def same_query(self) -> tuple[str, str]:
        """The links of the op under the cursor; an imported graph has none in the store."""
        if not self._op or self.owner.session.kind != "run":
            return "", ""
        side = "device" if self._side is Side.DEVICE else "original"
        return f"lineage_of_{side}_op", self._op

    def current_op(self) -> str:
        """The device op under the cursor, or the first that stands for the original there."""
        if self._side is Side.DEVICE or self._ladders is None:
            return self._op
        return next(iter(self._ladders.linked(Side.GOLDEN, self._op)), "")

    def current_topo(self) -> int:
        """Its place in execution order."""
        ladders = self._ladders
        return -1 if ladders is None else ladders.device.number.get(self.current_op(), -1)

    def named_op(self) -> str:
        """The op under the cursor, of either graph."""
        return self._op
