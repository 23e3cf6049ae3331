"""An op between what it reads and what reads it, drawn as the rows of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from divergraph.text.words import shape_text
from graphstore.model import Level, Metric
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail, TensorRow

_LEVELS = {Level.PASS: "clean", Level.WARN: "drifting", Level.FAIL: "inherited"}


class NeighbourRows:
    """The edges of an op from top to bottom: its inputs, the op, the readers of its outputs.

    ``centre`` is the row of the op itself.
    """

    def __init__(self, detail: OpDetail, glyphs: Glyphs) -> None:
        self.op = detail.row.id
        self._rows: list[tuple[str, tuple[Cell, ...]]] = []
        step, arrow = glyphs.lane_to_right, glyphs.running
        for tensor in detail.inputs:
            name = tensor.tensor if tensor.producer is None else tensor.producer.op
            to = "" if tensor.producer is None else name
            lane = f"{step}{glyphs.level}"
            self._add(to, lane, name, f"in {tensor.port}", tensor, glyphs)
        self.centre = len(self._rows)
        row = detail.row
        fused = f" {glyphs.fused}{row.fused}" if row.fused > 1 else ""
        lane = f"{glyphs.corner}{arrow}" if detail.inputs else f" {arrow}"
        state = "" if row.state is None else row.state.value.replace(" ", "_")
        style = state if row.state is not None and state != "not_compared" else ""
        mark = glyphs.state(row.state)
        centre = (Cell(lane, "quiet"), Cell(f"{mark} {self.op}", style, fused, "fused"))
        self._rows.append((self.op, (*centre, Cell(row.type), Cell(""), Cell(""), Cell(""))))
        edges = [(op, tensor) for tensor in detail.outputs for op in tensor.consumers]
        for number, (op, tensor) in enumerate(edges):
            lane = f"  {glyphs.corner if number == len(edges) - 1 else step}{arrow}"
            self._add(op, lane, op, f"out {tensor.port}", tensor, glyphs)

    def _add(
        self, to: str, lane: str, name: str, port: str, tensor: TensorRow, glyphs: Glyphs
    ) -> None:
        what = f"{wording.dtype_text(tensor.dtype)} {shape_text(tensor.shape)}"
        cells = (
            Cell(lane, "quiet"),
            Cell(name, "linked" if to else "quiet"),
            Cell(port, "quiet"),
            Cell(what),
            Cell(tensor.layout or ""),
            _measured(tensor, glyphs),
        )
        self._rows.append((to, cells))

    @property
    def columns(self) -> Sequence[ListColumn]:
        """The columns the rows need."""
        widest = [max(width_of(row[n].text) for _, row in self._rows) for n in range(6)]
        return (
            ListColumn("edge", "", widest[0], sortable=False, sticky=True),
            ListColumn("op", "op", 16, widest[1] + 4, cut="name", sortable=False),
            ListColumn("port", "", 6, widest[2], sortable=False),
            ListColumn("tensor", "tensor", 8, widest[3], priority=1, sortable=False),
            ListColumn("layout", "layout", 6, widest[4], priority=2, sortable=False),
            ListColumn("cos", "cos", 9, align="right", sortable=False),
        )

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        return self._rows[index][1]

    def op_at(self, index: int) -> str:
        """The op of a row; empty for a weight or an input of the model."""
        return self._rows[index][0] if 0 <= index < len(self._rows) else ""


def _measured(tensor: TensorRow, glyphs: Glyphs) -> Cell:
    """The cosine of the tensor on an edge."""
    compared = tensor.comparison
    if compared is None or compared.metrics is None:
        return Cell(glyphs.unknown if compared is not None else "", "unknown")
    value = wording.figure(compared.metrics, Metric.COSINE_SIMILARITY, glyphs)
    return Cell(value, _LEVELS[compared.level or Level.PASS])
