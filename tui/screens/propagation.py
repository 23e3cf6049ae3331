"""View 4: how an error goes from an op to the outputs, and where the model can be cut."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from tui.address import ScreenAddress
from tui.jobs.watched import JobLook
from tui.keys import KeyScope, bindings
from tui.messages import OpenOp
from tui.render import path_rows
from tui.render.part_marks import Marks
from tui.render.path_rows import CutRows, ErrorPathRows
from tui.screens.job_forms import JobStarter
from tui.widgets.lines import KeyLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from divergraph.ask.trace_answers import Trace


class PropagationScreen(JobStarter):
    """A path op by op, what the error reaches, the ops every path passes."""

    VIEW = "propagation"
    CRUMB = "Propagation"
    SCOPES = (KeyScope.PATHS, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.PATHS)
    SHOWN_KEYS = (
        "list.open",
        "paths.next",
        "paths.previous",
        "paths.unfold",
        "paths.keep",
        "paths.exact",
        "paths.answer",
        "part.start",
        "part.end",
        "origin.first",
        "origin.next",
        "yank",
        "jump.back",
        "jump.forward",
        "commands",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._op = ""
        self._trace: Trace | None = None
        self._number = 0
        self._open: frozenset[int] = frozenset()
        self._whole = False
        self._rows: ErrorPathRows | None = None

    def body(self) -> ComposeResult:
        """The path above, two panes about it below."""
        glyphs = self.owner.settings.glyphs
        yield RowList(FixedRows(()), glyphs, id="path", empty="loading")
        with Horizontal(id="around"):
            yield TextPane("Where the error goes", id="reach")
            yield RowList(FixedRows(()), glyphs, id="cuts", empty="loading")

    def on_mount(self) -> None:
        """Put the cursor into the path."""
        super().on_mount()
        listed = self.query_one("#path", RowList)
        listed.name_pane("The path of the error")
        listed.focus()
        self.query_one("#cuts", RowList).name_pane("Every path passes: b B take a cut into a part")

    def address(self) -> ScreenAddress:
        """The op the error is followed from."""
        return replace(super().address(), op=self._op)

    def load(self, address: ScreenAddress) -> None:
        """Ask for the paths from the op of *address*, or from the first origin."""
        self._trace, self._rows, self._op = None, None, address.op
        for pane in ("#path", "#cuts"):
            self.query_one(pane, RowList).show(FixedRows(()), empty="loading")
        self.ask("paths", lambda: self.owner.session.trace(address.op), self._got)

    def restore(self, address: ScreenAddress) -> None:
        """Follow the error of another op of the same run."""
        if self._trace is None or address.op not in ("", self._op):
            self.load(address)
        else:
            self._show_marks()

    def same_query(self) -> tuple[str, str]:
        """The measured outputs behind the op."""
        return ("propagation", self._op) if self._op else ("", "")

    def _got(self, trace: Trace) -> None:
        self._trace, self._op = trace, trace.op
        self.filled()
        session = self.owner.session
        session.note("trace", session.target, self._op)
        session.jumps.update(self.address())
        self._show_path(0)

    def _show_path(self, number: int) -> None:
        self._number, self._open, self._whole = number, frozenset(), False
        trace, glyphs = self._trace, self.owner.settings.glyphs
        listed = self.query_one("#path", RowList)
        if trace is None or not trace.paths:
            for row_list in (listed, self.query_one("#cuts", RowList)):
                row_list.show(FixedRows(()), empty="the error of this op reaches no output")
            return
        path = trace.paths[number]
        listed.name_pane(path_rows.title(trace, number, glyphs))
        self._draw_rows()
        self.query_one("#reach", TextPane).show(
            lambda width: path_rows.reach(trace, path, glyphs, width)
        )
        cuts = CutRows(path, glyphs, self._marks())
        best = path.cuts.index(path.middle) if path.middle is not None else 0
        why = "no op lies on every path: the model cannot be cut by one"
        self.query_one("#cuts", RowList).show(cuts, cursor=best, empty=why)
        self.query_one(KeyLine).draw()

    def _draw_rows(self, cursor: Callable[[ErrorPathRows], int] = lambda _: 0) -> None:
        assert self._trace is not None
        path, glyphs = self._trace.paths[self._number], self.owner.settings.glyphs
        self._rows = ErrorPathRows(path, glyphs, self._marks(), self._open, self._whole)
        self.query_one("#path", RowList).show(self._rows, cursor=cursor(self._rows))

    def _marks(self) -> Marks:
        return self.owner.session.marks.now

    def mark_part(self, what: str, op: str) -> None:
        """Mark an op, or a cut, as a start or an end of a part; it shows."""
        super().mark_part(what, op)
        self._show_marks()

    def _show_marks(self) -> None:
        for row_list in (self.query_one("#path", RowList), self.query_one("#cuts", RowList)):
            rows = row_list.source
            if isinstance(rows, ErrorPathRows | CutRows) and rows.marks != self._marks():
                row_list.source = replace(rows, marks=self._marks())
                row_list.renew()
        source = self.query_one("#path", RowList).source
        self._rows = source if isinstance(source, ErrorPathRows) else None

    @on(RowList.Opened, "#cuts")
    def _opened_cut(self, event: RowList.Opened) -> None:
        rows = event.rows.source
        if isinstance(rows, CutRows):
            self.post_message(OpenOp(rows.op(event.index)))

    @on(RowList.Opened, "#path")
    def _opened(self, event: RowList.Opened) -> None:
        rows = self._rows
        if rows is None:
            return
        if rows.folded(event.index):
            self._open |= {int(rows.starts[event.index])}
            self._draw_rows(lambda _: event.index)
        else:
            self.post_message(OpenOp(rows.op(event.index)))

    def action_next_path(self) -> None:
        """Show the path to the next output."""
        self._step("paths.next", 1)

    def action_previous_path(self) -> None:
        """Show the path to the output before."""
        self._step("paths.previous", -1)

    def _step(self, key_id: str, direction: int) -> None:
        if self.allowed(key_id) and self._trace is not None:
            self._show_path((self._number + direction) % len(self._trace.paths))

    def action_unfold(self) -> None:
        """Show all ops of the path, or only those where something happens."""
        if self._rows is None:
            return
        rows, cursor = self._rows, self.query_one("#path", RowList).cursor
        number = int(rows.starts[cursor]) if len(rows) else 0
        self._open, self._whole = frozenset(), len(rows) < len(rows.path.steps)
        self._draw_rows(lambda source: int(np.searchsorted(source.starts, number, "right")) - 1)

    def action_blame(self) -> None:
        """Fill in the form of ``blame``: shares of the error, and the ops to keep exact."""
        if self.allowed("paths.keep"):
            self.open_form("blame")

    def action_what_if(self) -> None:
        """Fill in the same form with what is asked of the op under the cursor."""
        if self.allowed("paths.exact"):
            exact = shlex.join([self.current_op()])
            self.open_form("blame", {"run": self.owner.session.target, "exact": exact})

    def action_blame_answer(self) -> None:
        """Show what the last ``blame`` of this run printed: the ops to keep, or what is left."""
        look = self._last_blame()
        if self.allowed("paths.answer") and look is not None:
            self.show_printed(shlex.join(look.job.words), look)

    def _last_blame(self) -> JobLook | None:
        about = (self.owner.session.target, "run")
        looks = (look for look in self.owner.looks if look.command == "blame")
        return next((look for look in looks if look.target == about), None)

    def current_op(self) -> str:
        """The op under the cursor, of the path or of the cuts, whichever the user is in."""
        cuts = self.query_one("#cuts", RowList)
        if cuts.has_focus and isinstance(cuts.source, CutRows) and len(cuts.source):
            return cuts.source.op(cuts.cursor)
        index = self.query_one("#path", RowList).cursor
        return "" if self._rows is None or index >= len(self._rows) else self._rows.op(index)

    def current_topo(self) -> int:
        """Its place in execution order."""
        rows, op = self.owner.session.known_rows(), self.current_op()
        return -1 if rows is None else rows.number.get(op, -1)

    def why_not(self, key_id: str) -> str | None:
        """Why a key of this view does nothing at present."""
        if key_id in {"paths.next", "paths.previous"}:
            several = self._trace is not None and len(self._trace.paths) > 1
            return None if several else "there is one path only"
        if key_id == "paths.answer":
            return None if self._last_blame() else "blame was not asked about this run: K asks"
        if key_id == "paths.exact" and not self.current_op():
            return "no op is chosen here"
        return super().why_not(key_id)
