"""The paths of an error as rows and texts of the propagation view. Knows no widget state."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from textual.content import Content

from divergraph.ask import ErrorPath, PathStep, Trace
from divergraph.ask.error_paths.path_compression import fold_text, folded
from divergraph.ask.sentences import names, step_note
from divergraph.text.printable import printable
from graphstore.model import Metric, OpState
from tui.render.op_table import ERROR_DECADES, ERROR_FLOOR, state_style, value_style
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

BAR = 8
_LABEL = 9


@dataclass(frozen=True)
class ErrorPathRows:
    """One path; ops that only carry are folded unless the number of their first is in *open*."""

    path: ErrorPath
    glyphs: Glyphs
    open: Set[int] = frozenset()

    def __post_init__(self) -> None:
        rows: list[tuple[int, Sequence[PathStep]]] = []
        for number, steps in folded(self.path.steps):
            if len(steps) > 1 and number in self.open:
                rows += [(number + at, (step,)) for at, step in enumerate(steps)]
            else:
                rows.append((number, steps))
        object.__setattr__(self, "rows", tuple(rows))

    rows: tuple[tuple[int, Sequence[PathStep]], ...] = ()

    @property
    def columns(self) -> Sequence[ListColumn]:
        """Place, op, type, error with its bar, gain, what happens."""
        steps = self.path.steps
        longest = max(width_of(step.row.id) + 3 * (step.row.fused > 1) for step in steps)
        types = max(len(step.row.type) for step in steps)
        notes = [step_note(step, first=number == 0) for number, step in enumerate(steps)]
        return (
            ListColumn("place", "#", 5, align="right", sortable=False),
            ListColumn("op", "op", 18, longest, cut="left", sortable=False),
            ListColumn("type", "type", 8, types, priority=7, sortable=False),
            ListColumn("cos", "cos out", 8, align="right", priority=5, sortable=False),
            ListColumn("rel", "rel.err", 7, align="right", sortable=False),
            ListColumn("bar", "decades", BAR, priority=4, sortable=False),
            ListColumn("gain", "gain", 6, 7, align="right", sortable=False),
            ListColumn("note", "note", 18, max(map(width_of, notes)), priority=2, sortable=False),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def op(self, index: int) -> str:
        """The op of one row; of folded ones the first."""
        return self.rows[index][1][0].row.id

    def folded(self, index: int) -> bool:
        """True if the row stands for several ops."""
        return len(self.rows[index][1]) > 1

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        number, steps = self.rows[index]
        if len(steps) > 1:
            head, _, gains = fold_text(steps).partition(", ")
            note = f"{gains}; enter shows them" if gains else "enter shows them"
            return (Cell(""), Cell(f"... {head}", "quiet"), *[Cell("")] * 5, Cell(note, "quiet"))
        return self._step(number, steps[0])

    def _step(self, number: int, step: PathStep) -> tuple[Cell, ...]:
        row, glyphs = step.row, self.glyphs
        style = value_style(row.state)
        error = None if row.metrics is None else row.metrics.relative_euclidean_distance
        strong = style if row.state in (OpState.ORIGIN, OpState.BROKEN) else ""
        return (
            Cell(f"{number}{glyphs.state(row.state)}", state_style(row.state)),
            Cell(row.id, strong, f" {glyphs.fused}{row.fused}" if row.fused > 1 else "", "fused"),
            Cell(row.type),
            Cell(wording.figure(row.metrics, Metric.COSINE_SIMILARITY, glyphs)),
            Cell(wording.small(error, glyphs), strong),
            Cell(_bar(error, glyphs), style),
            Cell(wording.gain(row.gain, glyphs)),
            Cell(step_note(step, first=number == 0), "quiet"),
        )


def _bar(error: float | None, glyphs: Glyphs) -> str:
    if error is None:
        return ""
    full = glyphs.bars[-1]
    if not math.isfinite(error):
        return full * BAR
    decades = 1 + math.log10(max(error, ERROR_FLOOR)) / ERROR_DECADES
    return full * min(BAR, max(1, round(decades * BAR)))


def title(trace: Trace, number: int, glyphs: Glyphs) -> str:
    """Which path of how many, from where to where."""
    path = trace.paths[number]
    which = f"Path {number + 1} of {len(trace.paths)}" if len(trace.paths) > 1 else "The path"
    ops = wording.count(len(path.steps), "op")
    start = f"{glyphs.origin} {trace.op}" if len(trace.op) < 40 else glyphs.origin
    return f"{which} from {start} to {path.to} ({ops}), on which most error is carried"


def reach(trace: Trace, path: ErrorPath, glyphs: Glyphs, width: int) -> Content:
    """What the error reaches, what joins the path, where it is healed."""
    lines = [
        _line(
            "reaches",
            f"{wording.count(len(trace.steps) - 1, 'op')}, {trace.over} of "
            f"{trace.measured} compared ones over a limit",
        ),
        _line(
            "ends",
            f"{wording.count(len(trace.outputs), 'output')}; "
            f"{wording.count(path.ops, 'op')} between the ends of this path",
        ),
    ]
    for step in path.steps[1:]:
        if step.joins:
            text = f"{step.row.id} {glyphs.from_} {names(step.joins)}"
            lines.append(_line("joins", cut_to(printable(text), width - _LABEL, glyphs.ellipsis)))
        if step.row.state is OpState.ORIGIN:
            shown = cut_to(printable(step.row.id), width - _LABEL, glyphs.ellipsis, "left")
            lines.append(_line("origin", (shown, theme.STATE_STYLES[OpState.ORIGIN])))
        if step.other_origins:
            text = f"{names(step.other_origins)} at {step.row.id}"
            shown = cut_to(printable(text), width - _LABEL, glyphs.ellipsis)
            lines.append(_line("joins", (shown, theme.STATE_STYLES[OpState.ORIGIN])))
    for op in trace.healed:
        shown = cut_to(printable(op), width - _LABEL, glyphs.ellipsis, "left")
        lines.append(_line("healed", (shown, theme.STATE_STYLES[OpState.CLEAN])))
    return Content("\n").join(line.truncate(width) for line in lines)


def cuts(path: ErrorPath, glyphs: Glyphs, width: int) -> Content:
    """The ops every path passes, with how many lie on either side."""
    if not path.cuts:
        return Content.styled(
            "no op lies on every path: the model cannot be cut by one", theme.QUIET
        )
    middle = path.middle
    lines = []
    for cut in path.cuts:
        tail = f"  {cut.above} above, {cut.below} below"
        best = cut == middle
        room = width - len(tail) - 2
        name = fit(printable(cut.op), room, glyphs.ellipsis, "left", "left")
        mark = f"{glyphs.marked} " if best else "  "
        lines.append(
            Content.assemble(
                (mark, theme.LINKED), (name, theme.LINKED if best else ""), (tail, theme.QUIET)
            )
        )
    head = Content.styled(f"{glyphs.marked} halves the path best: cut here to bisect", theme.QUIET)
    return Content("\n").join([*lines, head])


def _line(label: str, *parts: str | tuple[str, str]) -> Content:
    return Content.assemble((fit(label, _LABEL, ""), theme.HEADING), *parts)
