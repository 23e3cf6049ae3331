"""From an op along its edges: to what makes its inputs, to what reads its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual.screen import Screen

from divergraph.text.words import shape_text
from tui.messages import ask
from tui.owner import Owner
from tui.screens.windows.neighbourhood import NeighbourhoodOverlay
from tui.screens.windows.overlays import ChoiceOverlay
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail, TensorRow


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An op at the other end of an edge, and the tensor on it."""

    op: str
    port: str
    tensor: str
    layout: str


class EdgeActions(Screen[None]):
    """A view with an op under its cursor."""

    @property
    def owner(self) -> Owner:
        """The app, with its session and settings."""
        return cast("Owner", self.app)

    def current_op(self) -> str:
        """The op the user stands on; empty if there is none."""
        return ""

    def action_edge(self, direction: int) -> None:
        """Go to what makes an input (-1) or reads an output (1) of the op under the cursor."""
        op, before = self.current_op(), direction < 0

        def go(detail: OpDetail) -> None:
            self.go_along(op, neighbours(detail, before=before), before=before)

        if op:
            ask(self, "edges", lambda: self.owner.session.detail(op), go)
        else:
            self.notify("no op is chosen here", severity="warning")

    def action_around(self) -> None:
        """Draw what is around the op under the cursor."""
        op = self.current_op()
        if op:
            overlay = NeighbourhoodOverlay(self.owner.settings.glyphs, self.owner.session, op)
            self.app.push_screen(overlay, self._chosen)
        else:
            self.notify("no op is chosen here", severity="warning")

    def go_along(self, op: str, found: Sequence[Neighbour], *, before: bool) -> None:
        """Go to the op of *found* before or behind *op*; of several one is chosen."""
        ops = list(dict.fromkeys(neighbour.op for neighbour in found))
        if not ops:
            what = "makes its inputs" if before else "reads its outputs"
            self.notify(f"no op {what}", severity="warning")
        elif len(ops) == 1:
            self.show_neighbour(ops[0])
        else:
            title = f"{'Before' if before else 'Behind'} {op}"
            overlay = EdgeOverlay(self.owner.settings.glyphs, title, found)
            self.app.push_screen(overlay, self._chosen)

    def _chosen(self, op: str | None) -> None:
        if op is not None:
            self.show_neighbour(op)

    def show_neighbour(self, op: str) -> None:
        """Show the op at the other end of an edge."""
        self.owner.open_op(op)


class EdgeOverlay(ChoiceOverlay):
    """Several ops at the other ends of edges; enter goes to one."""

    def __init__(self, glyphs: Glyphs, title: str, found: Sequence[Neighbour]) -> None:
        columns = (
            ListColumn("port", "port", 6, 8, sortable=False),
            ListColumn("op", "op", 20, 200, cut="name", sortable=False),
            ListColumn("tensor", "tensor", 8, 40, sortable=False, priority=1),
            ListColumn("layout", "layout", 6, 12, sortable=False, priority=2),
        )
        rows = [
            (
                Cell(neighbour.port, "quiet"),
                Cell(neighbour.op, "linked"),
                Cell(neighbour.tensor),
                Cell(neighbour.layout),
            )
            for neighbour in found
        ]
        super().__init__(glyphs, title, columns, rows, [neighbour.op for neighbour in found])


def neighbours(detail: OpDetail, *, before: bool) -> list[Neighbour]:
    """The ops that make the inputs of an op, or those that read its outputs, by port."""
    if before:
        rows = [row for row in detail.inputs if row.producer is not None]
        return [_neighbour(str(row.producer and row.producer.op), "in", row) for row in rows]
    return [_neighbour(op, "out", row) for row in detail.outputs for op in row.consumers]


def _neighbour(op: str, side: str, tensor: TensorRow) -> Neighbour:
    what = f"{wording.dtype_text(tensor.dtype)} {shape_text(tensor.shape)}"
    return Neighbour(op, f"{side} {tensor.port}", what, tensor.layout or "")
