"""Which run or graph to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.worker import get_current_worker

from graphstore.model import Verdict
from tui.address import ScreenAddress
from tui.keys import KeyScope
from tui.messages import OpenTarget
from tui.screens.base import ViewScreen
from tui.style import words as wording
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows

if TYPE_CHECKING:
    from graphstore.contract import GraphInfo
    from graphstore.model import Run
    from tui.style.glyphs import Glyphs

NOTHING = "nothing is stored here yet: `divergraph demo` makes a run, `divergraph compare` yours"
_VERDICT_STYLES = {
    Verdict.CLEAN: "clean",
    Verdict.NOISE: "clean",
    Verdict.DIVERGED: "origin",
    Verdict.UNDECIDED: "unknown",
    Verdict.NOT_COMPARED: "unknown",
}


class RunsScreen(ViewScreen):
    """Runs and imported graphs, newest first; enter opens one."""

    VIEW = "runs"
    CRUMB = "Runs"
    SCOPES = (KeyScope.LIST, KeyScope.EVERYWHERE)
    SHOWN_KEYS = ("list.open", "view.runs", "commands", "log", "quit", "help")

    class Loaded(Message):
        """The store said what it holds."""

        def __init__(self, runs: list[Run], graphs: list[GraphInfo]) -> None:
            super().__init__()
            self.runs = runs
            self.graphs = graphs

    def __init__(self) -> None:
        super().__init__()
        self._targets: list[tuple[str, str]] = []

    def body(self) -> ComposeResult:
        """The list."""
        yield RowList(FixedRows(()), self.owner.settings.glyphs, id="runs", empty="loading")

    def on_mount(self) -> None:
        """Ask the store what it holds."""
        super().on_mount()
        self.query_one(RowList).name_pane("Runs and graphs")

    def show_address(self, address: ScreenAddress) -> None:
        """List anew: something may have been added since."""
        self.load(address)

    def load(self, address: ScreenAddress) -> None:
        """Ask the store what it holds."""
        self._ask()

    @work(thread=True, exclusive=True, group="runs", exit_on_error=False)
    def _ask(self) -> None:
        worker = get_current_worker()

        def ask() -> None:
            runs, graphs = self.owner.session.targets()
            if not worker.is_cancelled:
                self.post_message(self.Loaded(runs, graphs))

        self.answer(ask)

    @on(Loaded)
    def _show(self, event: Loaded) -> None:
        glyphs = self.owner.settings.glyphs
        self.filled()
        self._targets = [(run.name, "run") for run in event.runs]
        self._targets += [(graph.name, "graph") for graph in event.graphs]
        rows = [_run_cells(run, glyphs) for run in event.runs]
        rows += [_graph_cells(graph, glyphs) for graph in event.graphs]
        source = FixedRows(_columns(rows), rows)
        listed = self.query_one(RowList)
        listed.show(source, empty=NOTHING)
        listed.border_subtitle = Content(
            f"{wording.count(len(event.runs), 'run')}, {wording.count(len(event.graphs), 'graph')}"
        )
        listed.focus()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        name, kind = self._targets[event.index]
        self.post_message(OpenTarget(name, kind))

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """The name under the cursor, beside what every view offers."""
        index = self.query_one(RowList).cursor
        if index >= len(self._targets):
            return {}
        name, kind = self._targets[index]
        return {"name": ("n", name), "address": ("l", str(ScreenAddress(name, kind)))}


def _columns(rows: list[tuple[Cell, ...]]) -> tuple[ListColumn, ...]:
    widest = [max((width_of(row[n].text) for row in rows), default=0) for n in range(7)]
    return (
        ListColumn("name", "name", 12, widest[0], sortable=False),
        ListColumn("verdict", "verdict", 12, widest[1], sortable=False),
        ListColumn("ops", "ops", max(6, widest[2]), align="right", priority=2, sortable=False),
        ListColumn(
            "compared", "compared", max(8, widest[3]), align="right", priority=3, sortable=False
        ),
        ListColumn("over", "over", max(5, widest[4]), align="right", priority=1, sortable=False),
        ListColumn("made", "made (UTC)", 16, priority=4, sortable=False),
        ListColumn("what", "device graph", 14, widest[6], priority=5, sortable=False),
    )


def _run_cells(run: Run, glyphs: Glyphs) -> tuple[Cell, ...]:
    verdict = (
        f"{wording.verdict_mark(run.verdict, glyphs)} {wording.VERDICT_WORDS[run.verdict].lower()}"
    )
    counts = run.counts
    return (
        Cell(run.name),
        Cell(verdict, _VERDICT_STYLES[run.verdict]),
        Cell(wording.thousands(counts.ops)),
        Cell(wording.thousands(counts.compared)),
        Cell(wording.thousands(counts.over)),
        Cell(wording.minute(run.created), "quiet"),
        Cell(run.device.rpartition("@")[0] or run.device, "quiet"),
    )


def _graph_cells(graph: GraphInfo, glyphs: Glyphs) -> tuple[Cell, ...]:
    return (
        Cell(graph.name),
        Cell(f"{graph.kind} graph", "quiet"),
        Cell(wording.thousands(graph.ops)),
        Cell(glyphs.dash, "quiet"),
        Cell(glyphs.dash, "quiet"),
        Cell(wording.minute(graph.created), "quiet"),
        Cell(f"{graph.framework} {graph.format}", "quiet"),
    )
