"""View 5: a part of the model between marked ops, with its boundary; and its export."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content

from divergraph.jobs.progress import NO_PROGRESS
from graphstore.model import Side
from tui.address import ScreenAddress
from tui.keys import KeyScope, bindings
from tui.part_chooser import Answer, PartChooser, device_ops
from tui.render import part_text
from tui.render.part_marks import Marks
from tui.render.part_rows import OpsOfSide, PartRows
from tui.screens.part_jobs import PartJobs, marked
from tui.widgets.lines import KeyLine, StatusLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

_MANY = 20_000
"""A part of more ops takes so much memory to find that it is given back at once."""
TITLES = {Side.DEVICE: "Ops on the device", Side.GOLDEN: "Original ops"}


class SubmodelScreen(PartJobs):
    """The ops with marks, the boundary of what lies between, the rules it keeps."""

    VIEW = "submodel"
    CRUMB = "Submodel"
    SCOPES = (KeyScope.PART, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.PART)
    SHOWN_KEYS = (
        "part.start",
        "part.end",
        "part.accept",
        "part.minimize",
        "part.export",
        "part.side",
        "part.smallest",
        "part.unmark",
        "part.undo",
        "part.tried",
        "list.open",
        "origin.first",
        "yank",
        "commands",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._listed: OpsOfSide | None = None
        self._goal = ""

    def body(self) -> ComposeResult:
        """The ops on the left, boundary and checks on the right, the part in one line."""
        glyphs = self.owner.settings.glyphs
        with Horizontal(id="part"):
            yield RowList(FixedRows(()), glyphs, id="part-ops", empty="loading")
            with Container(id="part-about"):
                yield TextPane("Boundary", id="boundary")
                yield TextPane("Checks", id="checks")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """Put the cursor into the list."""
        super().on_mount()
        listed = self.query_one("#part-ops", RowList)
        listed.name_pane("Pick the part")
        listed.focus()

    def address(self) -> ScreenAddress:
        """The marks and the op under the cursor."""
        marks = self.owner.session.marks.now
        return replace(
            super().address(),
            op=self._goal or self.named_op(),
            starts=marks.starts,
            ends=marks.ends,
            side="" if marks.side is Side.DEVICE else marks.side.value,
        )

    def load(self, address: ScreenAddress) -> None:
        """Ask for the ops of another run, then for its dumps."""
        self._chooser, self._listed = None, None
        self._answer = Answer(Marks())
        self.follow_the_run()
        self._take(address)
        self.query_one("#part-ops", RowList).show(FixedRows(()), empty="loading")
        self._draw()
        self._ask(self.owner.session.marks.now.side, self._goal)

    def restore(self, address: ScreenAddress) -> None:
        """Show the marks of another place, or those made elsewhere."""
        self._take(address)
        if self._chooser is not None:
            self.show_marks()

    def _take(self, address: ScreenAddress) -> None:
        history = self.owner.session.marks
        self._goal = address.op
        if address.starts or address.ends:
            side = Side.GOLDEN if address.side == Side.GOLDEN.value else Side.DEVICE
            history.set(Marks(side, address.starts, address.ends))

    def _ask(self, side: Side, op: str) -> None:
        """The device's ops are listed first; the graphs may take long to read, and the dumps."""
        session = self.owner.session

        def load() -> tuple[PartChooser, OpsOfSide, dict[str, Any] | None]:
            if session.kind == "run":
                session.overview()  # tells the origins, too
            listed = None
            if side is Side.DEVICE:
                listed = OpsOfSide(side, device_ops(session.rows()))
                self.call_later(self._got_ops, None, listed, op)
            chooser = session.chooser()
            return chooser, listed or OpsOfSide(side, chooser.ops(side)), session.search()

        def loaded(answer: tuple[PartChooser, OpsOfSide, dict[str, Any] | None]) -> None:
            chooser, listed, search = answer
            self._got_ops(chooser, listed, op, search)
            if not chooser.opened:
                open_sources = partial(chooser.open_sources, NO_PROGRESS)
                self.ask("part-sources", open_sources, lambda _: self._choose())

        self.ask("part-open", load, loaded)

    def _got_ops(
        self,
        chooser: PartChooser | None,
        listed: OpsOfSide,
        op: str,
        search: dict[str, Any] | None = None,
    ) -> None:
        """Show the ops of one side; the graphs may still be read."""
        same = self._listed is listed
        self._chooser, self._listed = chooser, listed
        self.filled()
        if same:  # they are listed already
            self._choose()
            self.show_search(search)
            return
        first = self.owner.session.origin_from(-1, 0) or ""
        marks = self.owner.session.marks.now
        goal = op or next(iter(marks.starts), "") or first
        self._goal = ""
        rows = PartRows(listed, marks, self.owner.settings.glyphs)
        pane = self.query_one("#part-ops", RowList)
        pane.show(rows, cursor=listed.place.get(goal, 0), empty="there is no op")
        title = "Ops of the graph" if self.alone else TITLES[listed.side]
        pane.name_pane(f"{title}: pick the part")
        self._choose()
        self.show_search(search)

    def show_marks(self, goal: str = "") -> None:
        """Show the marks as they are now, the cursor on *goal*; the ops of the other side are asked
        for."""
        marks = self.owner.session.marks.now
        self._goal = goal or self._goal
        if self._listed is None or self._listed.side is not marks.side:
            self._list_ops(marks.side, self._goal)
            return
        if self._goal in self._listed.place:
            self.query_one("#part-ops", RowList).cursor = self._listed.place[self._goal]
        self._goal = ""
        self._choose()

    def _list_ops(self, side: Side, op: str) -> None:
        if (chooser := self._chooser) is not None:
            self.ask(
                "part-side",
                lambda: OpsOfSide(side, chooser.ops(side)),
                lambda listed: self._got_ops(chooser, listed, op),
            )

    def _choose(self) -> None:
        if self._listed is None:
            return
        marks = self.owner.session.marks.now
        self._show_rows(PartRows(self._listed, marks, self.owner.settings.glyphs))
        if self._chooser is not None:
            self._find_part(self._chooser, self._listed, marks)
        self.owner.session.jumps.update(self.address())

    def _find_part(self, chooser: PartChooser, listed: OpsOfSide, marks: Marks) -> None:
        glyphs = self.owner.settings.glyphs

        def choose() -> tuple[Answer, PartRows]:
            answer = chooser.choose(marks)
            if len(answer.inside) > _MANY:
                self.owner.session.rest()
            return answer, PartRows(listed, marks, glyphs, answer)

        self.ask("part-choose", choose, self._got_part)

    def _got_part(self, answer_and_rows: tuple[Answer, PartRows]) -> None:
        """Show what lies between the marks."""
        session, (answer, rows) = self.owner.session, answer_and_rows
        if answer.marks != session.marks.now or rows.listed is not self._listed:
            return
        self._answer = answer
        self._show_rows(rows)
        part = answer.selection
        if part is not None:
            session.note("submodel", session.target, *marked(part))
        self._draw()

    def _show_rows(self, rows: PartRows) -> None:
        listed = self.query_one("#part-ops", RowList)
        listed.source = rows
        listed.renew()

    def _draw(self) -> None:
        glyphs, answer, dumps = self.owner.settings.glyphs, self._answer, self.why_no_data()
        self.query_one("#boundary", TextPane).show(
            lambda width: part_text.boundary(answer, glyphs, width)
        )
        self.query_one("#checks", TextPane).show(
            lambda width: part_text.checks(answer, glyphs, width, dumps=dumps)
        )
        if not self._busy:
            self.query_one("#status", StatusLine).show(
                lambda width: part_text.status(answer, glyphs, width)
            )
        self.query_one(KeyLine).draw()

    @on(RowList.Moved, "#part-ops")
    def _moved(self, event: RowList.Moved) -> None:
        total = len(event.rows.source)
        event.rows.border_subtitle = Content(f"row {event.index + 1}/{total}")
        if self._chooser is not None and not self._goal:
            self.owner.session.jumps.update(self.address())

    @on(RowList.Opened, "#part-ops")
    def _opened(self) -> None:
        op = self.current_op()
        if op:
            self.owner.open_op(op)
        else:
            self.notify("no op of the device stands for this one", severity="warning")

    def mark_part(self, what: str, op: str) -> None:
        """Mark the op under the cursor; its part is shown at once."""
        history = self.owner.session.marks
        history.set(history.now.toggled(what, self.named_op() or op))
        self._choose()

    def action_part_mark(self, what: str) -> None:
        """Mark the op under the cursor as a start or an end."""
        if self.allowed(f"part.{what}"):
            self.mark_part(what, self.named_op())

    def action_unmark(self) -> None:
        """Take the marks off the op under the cursor."""
        if self.allowed("part.unmark"):
            history = self.owner.session.marks
            history.set(history.now.without(self.named_op()))
            self._choose()

    def action_undo(self) -> None:
        """Take the last change of the marks back."""
        if self.allowed("part.undo"):
            self.owner.session.marks.undo()
            self.show_marks()

    def action_accept(self) -> None:
        """Take the nearest part that may be cut."""
        if self.allowed("part.accept") and self._chooser is not None:
            history = self.owner.session.marks
            history.set(self._chooser.accepted(self._answer))
            self.show_marks(next(iter(history.now.starts), ""))

    def action_other_side(self) -> None:
        """Show the ops of the other graph, with the marks on what stands for them."""
        if not self.allowed("part.side") or self._chooser is None:
            return
        chooser, history, here = self._chooser, self.owner.session.marks, self.named_op()
        marks = history.now

        def turn() -> tuple[Marks, Marks]:
            other = chooser.on_other_side(replace(marks, starts=(here,), ends=(here,)))
            return chooser.on_other_side(marks), other

        def turned(both: tuple[Marks, Marks]) -> None:
            if history.now == marks:
                history.set(both[0])
                self.show_marks(next(iter(both[1].starts), ""))

        self.ask("part-side", turn, turned)

    def why_not(self, key_id: str) -> str | None:
        """Why a key of this view does nothing at present."""
        session = self.owner.session
        if key_id.startswith("part."):
            here = self.named_op()
            return self.why_no_part(key_id, here) if session.target else "nothing is open yet"
        return super().why_not(key_id)

    def _go_to_origin(self, key_id: str, direction: int) -> None:
        """Put the cursor on an origin, here and not in the list of ops."""
        if not self.allowed(key_id) or self._listed is None or self._chooser is None:
            return
        op = self.owner.session.origin_from(self.current_topo(), direction)
        if op is not None and self._listed.side is Side.GOLDEN:
            op = self._chooser.first_original(op)
        if op is None or op not in self._listed.place:
            self.notify("no origin there", severity="warning")
        else:
            self.query_one("#part-ops", RowList).cursor = self._listed.place[op]

    def named_op(self) -> str:
        """The op under the cursor, of the side shown."""
        listed = self.query_one("#part-ops", RowList)
        source = listed.source
        return source.op(listed.cursor).id if isinstance(source, PartRows) and len(source) else ""

    def same_query(self) -> tuple[str, str]:
        """What the op under the cursor feeds."""
        return ("descendants", self.named_op()) if self.named_op() else ("", "")

    def current_op(self) -> str:
        """The device's op under the cursor, or the one that stands for the original there."""
        op = self.named_op()
        if self._listed is None or self._listed.side is Side.DEVICE or self._chooser is None:
            return op
        return next(iter(self._chooser.on_other_side(Marks(Side.GOLDEN, (op,))).starts), "")

    def current_topo(self) -> int:
        """Its place in execution order."""
        rows = self.owner.session.known_rows()
        return -1 if rows is None else rows.number.get(self.current_op(), -1)
