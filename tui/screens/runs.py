"""Which run or graph to look at; two runs side by side; names and deleting."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from divergraph.ask.memory.baselines import standings
from tui.address import ScreenAddress
from tui.keys import KeyScope, bindings
from tui.messages import OpenTarget, ask
from tui.render.run_rows import (
    RunEntry,
    graph_entry,
    in_order,
    run_columns,
    run_entry,
    with_standing,
)
from tui.screens.base import ViewScreen
from tui.screens.windows.changes import ChangesOverlay
from tui.screens.windows.line_form import LineForm
from tui.style import words as wording
from tui.widgets.lines import KeyLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows

if TYPE_CHECKING:
    from divergraph.ask.questions.compare_runs import RunChanges

NOTHING = "nothing is stored here yet; n begins with the demo or models of yours"


class RunsScreen(ViewScreen):
    """Runs and imported graphs, newest first; enter opens one."""

    VIEW = "runs"
    CRUMB = "Runs"
    SCOPES = (KeyScope.RUNS, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.RUNS)
    SHOWN_KEYS = (
        "list.open",
        "runs.new",
        "filter.open",
        "list.sort",
        "runs.mark",
        "runs.compare",
        "runs.rename",
        "runs.delete",
        "runs.store",
        "commands",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[RunEntry] = []
        self._shown: list[RunEntry] = []
        self._marked: list[str] = []
        self._baselines: Collection[str] = ()
        self._only = ""
        self._order, self._turned = "", False

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

    def jobs_made(self, names: Collection[str], *, other_ops: bool) -> None:
        """List anew."""
        self._ask()

    def load(self, address: ScreenAddress) -> None:
        """Ask the store what it holds."""
        self._ask()

    def _ask(self) -> None:
        session, glyphs = self.owner.session, self.owner.settings.glyphs

        def listed() -> tuple[list[RunEntry], Collection[str]]:
            runs, graphs = session.targets()
            entries = [run_entry(run, glyphs) for run in runs]
            entries += [graph_entry(graph, glyphs) for graph in graphs]
            if run_standings := session.asked(lambda store: standings(store, runs)):
                entries = [with_standing(entry, run_standings.get(entry.name)) for entry in entries]
            stored = session.asked(lambda store: store.baselines())
            return entries, frozenset(baseline.run for baseline in stored)

        self.ask("runs", listed, self._got)

    def _got(self, answer: tuple[list[RunEntry], Collection[str]]) -> None:
        """Show the runs and graphs, and know which are baselines."""
        self.filled()
        self._entries, self._baselines = answer
        run_names = {entry.name for entry in self._entries if entry.kind == "run"}
        self._marked = [name for name in self._marked if name in run_names]
        self._show()
        self.query_one(RowList).focus()

    def _show(self) -> None:
        """The entries that fit the filter, in order."""
        listed, glyphs = self.query_one(RowList), self.owner.settings.glyphs
        here = self._here()
        self._shown = [entry for entry in self._entries if entry.fits(self._only)]
        if self._order:
            self._shown = in_order(self._shown, self._order, turned=self._turned)
        rows = [entry.row(entry.name in self._marked, glyphs) for entry in self._shown]
        names = [entry.name for entry in self._shown]
        at = names.index(here.name) if here is not None and here.name in names else 0
        empty = "none fits; esc shows all" if self._only else NOTHING
        listed.show(FixedRows(run_columns(rows), rows), cursor=at, empty=empty)
        listed.sort_shown(self._order, descending=self._turned)
        runs = sum(entry.kind == "run" for entry in self._shown)
        parts = [
            wording.count(runs, "run"),
            wording.count(len(self._shown) - runs, "graph"),
            *([f"{len(self._entries) - len(self._shown)} left out"] if self._only else []),
        ]
        listed.border_subtitle = Content(", ".join(parts))
        self.query_one(KeyLine).draw()

    def _here(self) -> RunEntry | None:
        index = self.query_one(RowList).cursor
        return self._shown[index] if 0 <= index < len(self._shown) else None

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        entry = self._shown[event.index]
        self.post_message(OpenTarget(entry.name, entry.kind))

    @on(RowList.SortAsked)
    def _sort(self, event: RowList.SortAsked) -> None:
        turned = not self._turned if event.reverse else False
        self._order, self._turned = self._order if event.reverse else event.column, turned
        self._show()

    def action_open_filter(self) -> None:
        """Show only the entries that hold a text."""
        glyphs, note = self.owner.settings.glyphs, "part of a name, a verdict or a graph"
        form = LineForm(glyphs, "Show only", self._only, note)
        self.app.push_screen(form, self._filter)

    def _filter(self, text: str | None) -> None:
        if text is not None:
            self._only = text
            self._show()

    def action_close(self) -> None:
        """Restore a maximised pane, else show all entries again."""
        if self.maximized is not None:
            self.minimize()
        elif self._only:
            self._only = ""
            self._show()

    def action_new(self) -> None:
        """Begin something new."""
        session = self.owner.session
        self.owner.go(ScreenAddress(session.target, session.kind, view="start"))

    def action_mark(self) -> None:
        """Mark a run to be compared with another, or unmark it; the last two marked count."""
        here = self._here()
        if here is None or not self.allowed("runs.mark"):
            return
        if here.name in self._marked:
            self._marked.remove(here.name)
        else:
            self._marked = [*self._marked, here.name][-2:]
        self._show()

    def action_compare(self) -> None:
        """Show what changed from the older to the newer of two marked runs."""
        if self.allowed("runs.compare"):
            marked = [entry for entry in self._entries if entry.name in self._marked]
            old, new = (entry.name for entry in in_order(marked, "made"))
            self.owner.session.note("compare-runs", old, new)
            ask(self, "changes", lambda: self.owner.session.changes(old, new), self._compared)

    def _compared(self, changes: RunChanges) -> None:
        """Show what is different in the newer of two runs."""
        overlay = ChangesOverlay(self.owner.settings.glyphs, changes)
        new = changes.new.name

        def opened(op: str | None) -> None:
            if op is not None:
                self.owner.go(ScreenAddress(new, op=op, view="ops"))

        self.app.push_screen(overlay, opened)

    def action_rename(self) -> None:
        """Ask for another name; in trouble, try the store again."""
        here = self._here()
        if self.has_class("-failed") or self.has_class("-troubled"):
            self.action_retry()
        elif here is not None and self.allowed("runs.rename"):
            glyphs = self.owner.settings.glyphs
            form = LineForm(glyphs, f"Rename {here.kind} {here.name}", here.name)

            def named(name: str | None) -> None:
                if name is not None and name != here.name:
                    message = f"{here.name} is {name} now"
                    self._change(partial(self.owner.session.rename, here.name, name), message)

            self.app.push_screen(form, named)

    def action_delete(self) -> None:
        """Ask, then remove the run or graph."""
        here = self._here()
        if here is None or not self.allowed("runs.delete"):
            return
        note = "type yes to delete it for good"
        if here.kind == "run" and here.name in self._baselines:
            note = f"the baseline of its model, which then has none; {note}"
        form = LineForm(self.owner.settings.glyphs, f"Delete {here.kind} {here.name}?", note=note)

        def answered(text: str | None) -> None:
            if text == "yes":
                message = f"{here.kind} {here.name} is deleted"
                self._change(partial(self.owner.session.delete, here.name), message)
            else:
                self.notify(f"{here.name} is kept")

        self.app.push_screen(form, answered)

    def _change(self, change: Callable[[], None], message: str) -> None:
        def list_anew(_: None) -> None:
            self.notify(message)
            self._ask()

        ask(self, "change", change, list_anew, exclusive=False)

    def why_not(self, key_id: str) -> str | None:
        """Why a key of the list does nothing at present."""
        here = self._here()
        if key_id == "filter.open":
            return None if self._entries else "nothing is listed"
        if key_id in {"runs.new", "runs.store"}:
            return None
        if key_id.startswith("runs.") and here is None:
            return "nothing is listed"
        if key_id == "runs.mark" and here is not None and here.kind != "run":
            return "an imported graph has no results"
        if key_id == "runs.compare" and len(self._marked) != 2:
            return "space marks two runs first"
        return super().why_not(key_id)

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """The name under the cursor, beside what every view offers."""
        here = self._here()
        if here is None:
            return {}
        return {
            "name": ("n", here.name),
            "address": ("l", str(ScreenAddress(here.name, here.kind))),
        }
