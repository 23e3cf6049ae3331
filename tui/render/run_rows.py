"""Runs and imported graphs as the rows of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from divergraph.outcomes import WORST_FIRST
from divergraph.text.words import verdict_word
from graphstore.model import Standing
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

if TYPE_CHECKING:
    from graphstore.contract import GraphInfo
    from graphstore.model import Run, RunStanding

_STANDING_STYLES = {Standing.WORSE: "origin", Standing.BETTER: "clean"}


@dataclass(frozen=True)
class RunEntry:
    """A run or an imported graph: its cells, and by column what it is sorted by."""

    name: str
    kind: str
    cells: tuple[Cell, ...]
    keys: Mapping[str, Any]

    def fits(self, text: str) -> bool:
        """Whether a cell holds *text*, whatever its case."""
        wanted = text.casefold()
        return any(wanted in cell.text.casefold() for cell in self.cells)

    def row(self, marked: bool, glyphs: Glyphs) -> tuple[Cell, ...]:
        """The cells, with a mark."""
        return (Cell(glyphs.marked if marked else " ", "linked"), *self.cells)


def in_order(entries: Sequence[RunEntry], column: str, *, turned: bool = False) -> list[RunEntry]:
    """*entries* sorted by a column, the other way if *turned*; what has no figure stands last."""
    sortable = [entry for entry in entries if column in entry.keys]
    sortable.sort(key=lambda entry: entry.keys[column], reverse=turned)
    return [*sortable, *(entry for entry in entries if column not in entry.keys)]


def run_columns(rows: Sequence[Sequence[Cell]]) -> tuple[ListColumn, ...]:
    """The columns that *rows* need; no number is cut."""

    def widest(least: int, place: int) -> int:
        return max(least, *(width_of(row[place].text) for row in rows), 0)

    has_baselines = bool(rows) and len(rows[0]) > 8
    return (
        ListColumn("mark", "", 1, sticky=True, sortable=False),
        ListColumn("name", "name", 12),
        ListColumn("verdict", "verdict", 12),
        ListColumn("ops", "ops", widest(6, 3), align="right", priority=2),
        ListColumn("compared", "compared", widest(8, 4), align="right", priority=3),
        ListColumn("over", "over", widest(5, 5), align="right", priority=1),
        ListColumn("made", "made (UTC)", 16, priority=4),
        ListColumn("what", "device graph", 14, priority=5),
        *([ListColumn("baseline", "baseline", 8, priority=1)] if has_baselines else []),
    )


def run_entry(run: Run, glyphs: Glyphs) -> RunEntry:
    """The entry of a run."""
    mark = wording.verdict_mark(run.verdict, glyphs)
    counts, what = run.counts, run.device.rpartition("@")[0] or run.device
    cells = (
        Cell(run.name),
        Cell(f"{mark} {verdict_word(run.verdict)}", wording.verdict_style(run.verdict)),
        Cell(wording.thousands(counts.ops)),
        Cell(wording.thousands(counts.compared)),
        Cell(wording.thousands(counts.over)),
        Cell(wording.minute(run.created), "quiet"),
        Cell(what, "quiet"),
    )
    keys = {
        "name": run.name.casefold(),
        "verdict": WORST_FIRST.index(run.verdict),
        "ops": counts.ops,
        "compared": counts.compared,
        "over": counts.over,
        "made": run.created,
        "what": what,
    }
    return RunEntry(run.name, "run", cells, keys)


def with_standing(entry: RunEntry, standing: RunStanding | None) -> RunEntry:
    """*entry* with how it stands against the baseline of its model."""
    if standing is None:
        return replace(entry, cells=(*entry.cells, Cell("", "quiet")))
    words = standing.standing.value
    if standing.changes and standing.standing is not Standing.SAME:
        words += f": {', '.join(f'{count} {kind}' for kind, count in standing.changes.items())}"
    style = _STANDING_STYLES.get(standing.standing, "quiet")
    keys = {**entry.keys, "baseline": list(Standing).index(standing.standing)}
    return replace(entry, cells=(*entry.cells, Cell(words, style)), keys=keys)


def graph_entry(graph: GraphInfo, glyphs: Glyphs) -> RunEntry:
    """The entry of an imported graph."""
    what = f"{graph.framework} {graph.format}"
    cells = (
        Cell(graph.name),
        Cell(f"{graph.kind} graph", "quiet"),
        Cell(wording.thousands(graph.ops)),
        Cell(glyphs.dash, "quiet"),
        Cell(glyphs.dash, "quiet"),
        Cell(wording.minute(graph.created), "quiet"),
        Cell(what, "quiet"),
    )
    keys = {"name": graph.name.casefold(), "ops": graph.ops, "made": graph.created, "what": what}
    return RunEntry(graph.name, "graph", cells, keys)
