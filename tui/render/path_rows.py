"""The paths of an error as rows and texts of the propagation view. Knows no widget state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from textual.content import Content

from divergraph.ask.error_paths.path_compression import fold_starts, fold_text
from divergraph.ask.error_paths.path_steps import PathStep, PathSteps
from divergraph.ask.sentences import names, step_note
from divergraph.ask.trace_answers import Cut, ErrorPath, Trace
from divergraph.text.printable import printable
from graphstore.columns.coded import Int
from graphstore.model import Metric, OpState, Side
from tui.render.hanging import hung
from tui.render.op_table import ERROR_DECADES, ERROR_FLOOR, state_style, value_style, widest_name
from tui.render.part_marks import Marks
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

BAR = 8
_LABEL = 9
_LISTED = 200
"""The most ops listed of those at which something joins, or the error ends."""
_MEASURED = 500
"""The most rows whose notes are made to see how wide they are."""


@dataclass(frozen=True)
class ErrorPathRows:
    """One path; ops that only carry are folded unless the number of their first is in *open*, or
    the path is shown *whole*."""

    path: ErrorPath
    glyphs: Glyphs
    marks: Marks = field(default_factory=Marks)
    open: Set[int] = frozenset()
    whole: bool = False

    def __post_init__(self) -> None:
        steps = self.path.steps
        starts = np.arange(len(steps), dtype=np.int32) if self.whole else fold_starts(steps)
        stops = np.append(starts[1:], len(steps))
        opened = np.flatnonzero(np.isin(starts, list(self.open))).tolist()
        step_ranges = [np.arange(starts[at], stops[at], dtype=np.int32) for at in opened]
        object.__setattr__(
            self, "starts", np.union1d(starts, np.concatenate([starts, *step_ranges]))
        )
        object.__setattr__(self, "columns", self._columns())

    starts: Int = field(init=False)
    """The numbers of the steps the rows begin with."""
    columns: Sequence[ListColumn] = field(init=False)

    def _columns(self) -> Sequence[ListColumn]:
        """Place, op, type, error with its bar, gain, what happens."""
        steps = self.path.steps
        ops, op_rows = steps.region.facts.rows, steps.own
        fused = ops.fused[op_rows]
        longest = widest_name(map(ops.ids.__getitem__, op_rows.tolist()), 3 * (fused > 1))
        types = max(len(ops.types.values[code]) for code in np.unique(ops.types.codes[op_rows]))
        some = np.linspace(0, len(self) - 1, min(len(self), _MEASURED)).astype(np.int64)
        notes = map(self._note, np.unique(some).tolist())
        shares = (ListColumn("share", "share", 5, align="right", priority=3, sortable=False),)
        return (
            ListColumn("part", "", 1, sortable=False),
            ListColumn("place", "#", 5, len(str(len(steps))) + 1, align="right", sortable=False),
            ListColumn("op", "op", 18, longest, cut="name", sortable=False),
            ListColumn("type", "type", 8, types, priority=7, sortable=False),
            ListColumn("cos", "cos out", 8, align="right", priority=5, sortable=False),
            ListColumn("rel", "rel.err", 7, align="right", sortable=False),
            ListColumn("bar", "decades", BAR, priority=4, sortable=False),
            ListColumn("gain", "gain", 6, 7, align="right", sortable=False),
            *(shares if self._shares else ()),
            ListColumn("note", "note", 18, max(map(width_of, notes)), priority=2, sortable=False),
        )

    @property
    def _shares(self) -> Mapping[str, float]:
        """What part of the error of the outputs ops make, where ``blame`` was asked."""
        run = self.path.steps.region.facts.run
        return {} if run is None else run.analysis.blame.shares

    def _note(self, index: int) -> str:
        """What is said of a row."""
        steps = self.steps(index)
        if len(steps) == 1:
            return step_note(steps[0], first=index == 0)
        gains = fold_text(steps).partition(", ")[2]
        return f"{gains}; enter shows them" if gains else "enter shows them"

    def __len__(self) -> int:
        return len(self.starts)

    def op(self, index: int) -> str:
        """The op of one row; of folded ones the first."""
        return self.path.steps.region.facts.rows.ids[self.number(index)]

    def number(self, index: int) -> int:
        """The number of that op, its place in execution order."""
        return int(self.path.steps.own[self.starts[index]])

    def folded(self, index: int) -> bool:
        """True if the row stands for several ops."""
        return len(self.steps(index)) > 1

    def steps(self, index: int) -> PathSteps:
        """The steps one row stands for."""
        last = len(self.path.steps) if index + 1 == len(self) else int(self.starts[index + 1])
        return self.path.steps[int(self.starts[index]) : last]

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        number, steps = int(self.starts[index]), self.steps(index)
        if len(steps) > 1:
            head, note = fold_text(steps).partition(", ")[0], self._note(index)
            between = [Cell("")] * (len(self.columns) - 4)
            return (Cell(""), Cell(""), Cell(f"... {head}", "quiet"), *between, Cell(note, "quiet"))
        return self._step(number, steps[0])

    def _step(self, number: int, step: PathStep) -> tuple[Cell, ...]:
        row, glyphs = step.row, self.glyphs
        style = value_style(row.state)
        error = None if row.metrics is None else row.metrics.relative_euclidean_distance
        strong = style if row.state in (OpState.ORIGIN, OpState.BROKEN) else ""
        share = self._shares.get(row.id)
        shares = (Cell(glyphs.dash if share is None else wording.share(share)),)
        return (
            Cell(mark_of(self.marks, row.id), "linked"),
            Cell(f"{number}{glyphs.state(row.state)}", state_style(row.state)),
            Cell(row.id, strong, f" {glyphs.fused}{row.fused}" if row.fused > 1 else "", "fused"),
            Cell(row.type),
            Cell(wording.figure(row.metrics, Metric.COSINE_SIMILARITY, glyphs)),
            Cell(wording.small(error, glyphs), strong),
            Cell(_bar(error, glyphs), style),
            Cell(wording.gain(row.gain, glyphs)),
            *(shares if self._shares else ()),
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


@dataclass(frozen=True)
class CutRows:
    """The ops every path passes, with how many lie on either side; the one that halves the path
    best is marked."""

    path: ErrorPath
    glyphs: Glyphs
    marks: Marks = field(default_factory=Marks)
    columns: Sequence[ListColumn] = field(init=False)

    def __post_init__(self) -> None:
        names = widest_name(cut.op for cut in self.path.cuts)
        columns = (
            ListColumn("part", "", 1, sortable=False),
            ListColumn("best", "", 1, sortable=False),
            ListColumn("op", "op", 18, names, cut="name", sortable=False),
            ListColumn("above", "before", 7, align="right", sortable=False),
            ListColumn("below", "behind", 7, align="right", sortable=False),
        )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "best", self.path.middle)

    best: Cut | None = field(init=False)

    def __len__(self) -> int:
        return len(self.path.cuts)

    def op(self, index: int) -> str:
        """The op of one row."""
        return self.path.cuts[index].op

    def row(self, index: int) -> Sequence[Cell]:
        """The cells of one row."""
        cut = self.path.cuts[index]
        best = cut == self.best
        return (
            Cell(mark_of(self.marks, cut.op), "linked"),
            Cell(self.glyphs.marked if best else "", "linked"),
            Cell(cut.op, "linked" if best else ""),
            Cell(str(cut.above), "quiet"),
            Cell(str(cut.below), "quiet"),
        )


def mark_of(marks: Marks, op: str) -> str:
    """S for a start of the part that is being chosen, E for an end; no mark for others."""
    if marks.side is not Side.DEVICE:
        return ""
    return "S" if op in marks.starts else "E" if op in marks.ends else ""


def title(trace: Trace, number: int, glyphs: Glyphs) -> str:
    """Which path of how many, from where to where."""
    path = trace.paths[number]
    which = f"Path {number + 1} of {len(trace.paths)}" if len(trace.paths) > 1 else "The path"
    ops = wording.count(len(path.steps), "op")
    start = f"{glyphs.origin} {trace.op}" if len(trace.op) < 40 else glyphs.origin
    return f"{which} from {start} to {path.to} ({ops}), on which most error is carried"


def reach(trace: Trace, path: ErrorPath, glyphs: Glyphs, width: int) -> Content:
    """What the error reaches, what joins the path, where it is healed."""
    reached = (
        f"{wording.count(len(trace.steps) - 1, 'op')}, {trace.over} of "
        f"{trace.measured} compared ones over a limit"
    )
    ends = (
        f"{wording.count(len(trace.outputs), 'output')}; "
        f"{wording.count(path.ops, 'op')} between the ends of this path"
    )
    lines = [
        *hung(fit("reaches", _LABEL, ""), reached, width, theme.HEADING),
        *hung(fit("ends", _LABEL, ""), ends, width, theme.HEADING),
    ]
    met = [at for at in path.steps.met.tolist() if at > 0]
    for step in map(path.steps.__getitem__, met[:_LISTED]):
        if step.joins:
            text = f"{step.row.id} {glyphs.from_} {names(step.joins)}"
            lines.append(_line("joins", cut_to(printable(text), width - _LABEL, glyphs.ellipsis)))
        if step.row.state is OpState.ORIGIN:
            label = cut_to(printable(step.row.id), width - _LABEL, glyphs.ellipsis, "left")
            lines.append(_line("origin", (label, theme.STATE_STYLES[OpState.ORIGIN])))
        if step.other_origins:
            text = f"{names(step.other_origins)} at {step.row.id}"
            label = cut_to(printable(text), width - _LABEL, glyphs.ellipsis)
            lines.append(_line("joins", (label, theme.STATE_STYLES[OpState.ORIGIN])))
    if len(met) > _LISTED:
        lines.append(_line("joins", f"{len(met) - _LISTED} more, further on"))
    for op in trace.healed[:_LISTED]:
        label = cut_to(printable(op), width - _LABEL, glyphs.ellipsis, "left")
        lines.append(_line("healed", (label, theme.STATE_STYLES[OpState.CLEAN])))
    if len(trace.healed) > _LISTED:
        lines.append(_line("healed", f"{len(trace.healed) - _LISTED} more"))
    return Content("\n").join(line.truncate(width) for line in lines)


def _line(label: str, *parts: str | tuple[str, str]) -> Content:
    return Content.assemble((fit(label, _LABEL, ""), theme.HEADING), *parts)
