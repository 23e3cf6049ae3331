"""The ops of the run with the chosen part in brackets, as rows. Knows no widget state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphstore.model import OpState, Side
from tui.part_chooser import Answer, PartOp, PartOps
from tui.render.op_table import state_style, value_style, widest, widest_name
from tui.render.part_marks import Marks
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

ROLE = 12


@dataclass(frozen=True)
class OpsOfSide:
    """The ops of one graph in execution order; measured once, whatever is marked."""

    side: Side
    ops: PartOps
    place: Mapping[str, int] = field(init=False)
    columns: Sequence[ListColumn] = field(init=False)

    def __post_init__(self) -> None:
        ops = self.ops
        names = widest_name(ops.ids, 4 * (ops.fused > 1))
        columns = (
            ListColumn("mark", "", 4, sortable=False),
            ListColumn("topo", "topo", max(4, len(str(len(ops)))), align="right", sortable=False),
            ListColumn("state", "", 1, sortable=False),
            ListColumn("op", "op", 18, names, cut="name", sortable=False),
            ListColumn("type", "type", 8, widest(ops.types), priority=4, sortable=False),
            ListColumn("cos", "cos", 8, align="right", priority=2, sortable=False),
            ListColumn("role", "role", ROLE, sortable=False),
        )
        measured = ops.measured
        place = (
            measured.number
            if measured.ids is ops.ids
            else {op: at for at, op in enumerate(ops.ids)}
        )
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "columns", columns)


class PartRows:
    """All ops of one side, with the marks and what lies between them."""

    def __init__(
        self, listed: OpsOfSide, marks: Marks, glyphs: Glyphs, answer: Answer | None = None
    ) -> None:
        self.listed = listed
        self.glyphs = glyphs
        self.columns = listed.columns
        self._starts, self._ends = frozenset(marks.starts), frozenset(marks.ends)
        self._answer = answer
        inside = answer.inside if answer is not None else frozenset()
        marked_ops = (self._starts | self._ends | inside) & listed.place.keys()
        places = [listed.place[op] for op in marked_ops]
        self.first, self.last = (min(places), max(places)) if places else (-1, -1)

    def __len__(self) -> int:
        return len(self.listed.ops)

    def op(self, index: int) -> PartOp:
        """The op of one row."""
        return self.listed.ops[index]

    def row(self, index: int) -> tuple[Cell, ...]:
        """The cells of one row."""
        op, glyphs = self.listed.ops[index], self.glyphs
        role, style = self._role(op.id, index)
        strong = value_style(op.state) if op.state in (OpState.ORIGIN, OpState.BROKEN) else ""
        tail = f" {glyphs.fused}{op.fused}" if op.fused > 1 else ""
        return (
            Cell(self._bracket(op.id, index), "linked"),
            Cell(str(op.topo), "quiet"),
            Cell(glyphs.state(op.state), state_style(op.state)),
            Cell(op.id, strong, tail, "fused"),
            Cell(op.type),
            Cell(wording.cosine(op.cosine, glyphs)),
            Cell(role, style),
        )

    def _role(self, op: str, index: int) -> tuple[str, str]:
        marked = [word for word, ops in (("START", self._starts), ("END", self._ends)) if op in ops]
        if marked:
            return " ".join(marked), "linked"
        if self._answer is None or self._answer.selection is None:
            return "", ""
        if op in self._answer.inside:
            return "inside", ""
        if op in self._answer.along:
            return "constant", "quiet"
        return ("not between", "quiet") if self.first < index < self.last else ("", "")

    def _bracket(self, op: str, index: int) -> str:
        if not self.first <= index <= self.last:
            return ""
        g = self.glyphs
        letter = "S" if op in self._starts else "E" if op in self._ends else ""
        if not letter and self._answer is not None and self._answer.selection is not None:
            part = op in self._answer.inside or op in self._answer.along
            letter = g.inside if part else g.outside
        edge = g.within
        if self.first < self.last and index in (self.first, self.last):
            edge = (g.opening if index == self.first else g.closing) + g.rung
        return f"{edge:2} {letter}" if len(edge) == 1 else f"{edge} {letter}"
