"""What all views share: the lines around them, navigation, and errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from divergraph.text.printable import printable
from graphstore.model import Side
from tui.address import ScreenAddress
from tui.keys import BY_ID, Key, KeyScope, bindings
from tui.messages import Answer, Failed, ask
from tui.render.part_marks import Marks
from tui.screens.job_actions import JobActions
from tui.style import theme
from tui.style import words as wording
from tui.terminal.pixels import PlacedPicture
from tui.trouble import unexpected
from tui.widgets.lines import KeyLine, Tab, TabLine, TitleLine
from tui.widgets.row_list import RowList

VIEWS = (
    ("overview", "1 Overview"),
    ("ops", "2 Ops"),
    ("lineage", "3 Lineage"),
    ("propagation", "4 Propagation"),
    ("submodel", "5 Submodel"),
    ("tensor", "6 Tensor"),
    ("query", "7 Query"),
    ("jobs", "8 Jobs"),
)
NO_RUN = "an imported graph has no results; compare makes them"


class ViewScreen(JobActions):
    """One view. Subclasses compose the body and load it; nothing here asks the store."""

    BINDINGS = bindings(KeyScope.EVERYWHERE)
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (22, "-short"), (30, "-tall")]  # noqa: RUF012

    VIEW: ClassVar[str] = ""
    CRUMB: ClassVar[str] = ""
    SHOWN_KEYS: ClassVar[tuple[str, ...]] = ()
    SCOPES: ClassVar[tuple[KeyScope, ...]] = (KeyScope.LIST, KeyScope.EVERYWHERE)

    def __init__(self) -> None:
        super().__init__()
        self._at = ""
        self._filled = False

    def compose(self) -> ComposeResult:
        """Title, views, body, keys."""
        glyphs = self.owner.settings.glyphs
        yield TitleLine(glyphs)
        yield TabLine(VIEWS, self.VIEW)
        with Container(id="body"):
            yield from self.body()
        yield Static("", id="problem", markup=False)
        yield KeyLine(self._line_keys(), self.why_not)

    def body(self) -> ComposeResult:
        """The panes of the view."""
        raise NotImplementedError

    def load(self, address: ScreenAddress) -> None:
        """Start loading what *address* shows; called again for another target."""
        raise NotImplementedError

    def restore(self, address: ScreenAddress) -> None:
        """Show another place in the target already loaded."""

    def address(self) -> ScreenAddress:
        """The address of what is shown."""
        session = self.owner.session
        return ScreenAddress(session.target, session.kind, view=self.VIEW)

    def show_place(self) -> None:
        """Say in the title line what is looked at, and how."""
        session = self.owner.session
        place = f"{session.kind} {session.target}" if session.target else ""
        crumbs = [crumb for crumb in ("divergraph", place, self.CRUMB) if crumb]
        self.query_one(TitleLine).show(crumbs, session.store_name)

    def show_address(self, address: ScreenAddress) -> None:
        """Show what *address* says, loading only what is not there yet."""
        session = self.owner.session
        self.show_place()
        if self._at != session.stamp:
            self._at = session.stamp
            self._filled = False
            self._forget_problem()
            self.load(address)
        else:
            self.restore(address)
        self.query_one(KeyLine).draw()

    def jobs_made(self, names: Collection[str], *, other_ops: bool) -> None:
        """Load what is shown again if a job has written it."""
        if self.owner.session.target in names:
            here = self.address()
            self.show_address(replace(here, op="") if other_ops else here)

    def on_mount(self) -> None:
        """Draw with the chosen set of marks."""
        self.set_class(self.owner.settings.glyphs.name == "ascii", "-ascii")
        session = self.owner.session
        self.query_one(TitleLine).show(["divergraph", self.CRUMB], session.store_name)
        self.watch(self.owner, "looks", self.show_jobs)

    def why_not(self, key_id: str) -> str | None:
        """Why the key does nothing at present, None if it does."""
        session = self.owner.session
        jumps = session.jumps
        no_run = NO_RUN if session.kind == "graph" else None
        no_target = None if session.target else "nothing is open yet"
        reasons = {
            "view.overview": no_target or no_run,
            "view.ops": no_target,
            "view.lineage": no_target,
            "view.propagation": no_target or no_run or self._no_origin(),
            "view.submodel": no_target,
            "view.tensor": no_target or no_run,
            "view.query": no_target,
            "query.same": no_target or self._no_query(),
            "propagation.follow": no_target or no_run,
            "why": no_target or no_run,
            "part.start": no_target,
            "filter.open": no_target,
            "origin.first": no_target or no_run or self._no_origin(),
            "jump.back": None if jumps.at > 0 else "this is the first place",
            "jump.forward": None if jumps.at < len(jumps.places) - 1 else "this is the last place",
        }
        reasons["part.end"] = reasons["part.start"]
        reasons["origin.next"] = reasons["origin.previous"] = reasons["origin.first"]
        return reasons.get(key_id)

    def same_query(self) -> tuple[str, str]:
        """The named query that gives what is shown, and the op it is about; empty names if none."""
        return "", ""

    def _no_query(self) -> str | None:
        return None if self.same_query()[0] else "no named query says the same"

    def action_same_as_cypher(self) -> None:
        """Show the named query that gives the same in the view of queries."""
        if self.allowed("query.same"):
            session = self.owner.session
            session.ask_query(*self.same_query())
            self.owner.go(ScreenAddress(session.target, session.kind, view="query"))

    def _no_origin(self) -> str | None:
        origins = self.owner.session.known_origins()
        if origins is None:
            return "still loading"
        return None if origins else "the run has no origin"

    def unavailable(self) -> dict[str, str]:
        """The keys that do nothing at present, with the reason."""
        return {
            key.id: why
            for key in self.owner.keys
            if key.scope in self.SCOPES and (why := self.why_not(key.id)) is not None
        }

    def allowed(self, key_id: str) -> bool:
        """True if the key applies; else says why not."""
        why = self.why_not(key_id)
        if why is not None:
            self.notify(f"{BY_ID[key_id].help}: {why}", severity="warning")
        return why is None

    def ask(
        self, group: str, question: Callable[[], Answer], then: Callable[[Answer], object]
    ) -> None:
        """Answer *question* in a thread and give the answer to *then*; trouble the user can meet
        becomes a screen."""
        ask(self, group, question, then, lambda error: self.post_message(Failed(error)))

    @on(Worker.StateChanged)
    def _worker_ended(self, event: Worker.StateChanged) -> None:
        """Show what nobody foresaw like any other trouble, not as a traceback."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.post_message(Failed(unexpected(event.worker.error, self.owner.settings.state_dir)))

    @property
    def waiting(self) -> bool:
        """True while an answer, or the question it needs, is still to come."""
        return bool(self._at) and not self._filled and not self.has_class("-failed")

    def filled(self) -> None:
        """The panes show what was asked for; trouble from now on leaves it on screen."""
        self._filled = True
        self._forget_problem()

    def _forget_problem(self) -> None:
        self.remove_class("-failed", "-troubled")

    @on(Failed)
    def _show_problem(self, event: Failed) -> None:
        """Show the trouble above what is in memory, or in place of an empty body."""
        event.stop()
        error, glyphs = event.error, self.owner.settings.glyphs
        lines = [Content.styled(f"{glyphs.bad} {printable(error.what)}", theme.ERROR)]
        if error.where:
            lines.append(Content(f"  {printable(error.where)}"))
        if error.hint:
            lines.append(Content(f"  {printable(error.hint)}"))
        keys = "  R tries again, 0 lists the runs and graphs, q leaves"
        lines.append(Content.styled(keys, theme.QUIET))
        self.query_one("#problem", Static).update(Content("\n").join(lines))
        self.add_class("-troubled" if self._filled else "-failed")
        if not self._filled:
            self._at = ""

    def action_retry(self) -> None:
        """Open the store anew and ask again."""
        if self.has_class("-failed") or self.has_class("-troubled"):
            self.ask("retry", self.owner.session.reopen, self._ask_again)

    def _ask_again(self, _: None) -> None:
        address, self._at = self.address(), ""
        self.show_address(address)

    @on(Tab.Chosen)
    def _tab(self, event: Tab.Chosen) -> None:
        self.action_view(event.view)

    def action_view(self, view: str) -> None:
        """Go to another view of the same target than that which is shown or comes."""
        key = f"view.{view}"
        if view != [self.VIEW, *self.owner.coming][-1] and self.allowed(key):
            session = self.owner.session
            session.last_op = self.current_op() or session.last_op
            self.owner.go(ScreenAddress(session.target, session.kind, view=view))

    def action_first_origin(self) -> None:
        """Show the first origin in the list of ops."""
        self._go_to_origin("origin.first", 0)

    def action_next_origin(self) -> None:
        """Show the next origin."""
        self._go_to_origin("origin.next", 1)

    def action_previous_origin(self) -> None:
        """Show the origin before."""
        self._go_to_origin("origin.previous", -1)

    def _go_to_origin(self, key_id: str, direction: int) -> None:
        if self.allowed(key_id):
            op = self.owner.session.origin_from(self.current_topo(), direction)
            if op is None:
                where = "after" if direction > 0 else "before"
                self.notify(f"no origin {where} this op", severity="warning")
            else:
                self.owner.open_op(op)

    def action_follow(self) -> None:
        """Follow the error of the op under the cursor to the outputs."""
        op = self.current_op()
        if not self.allowed("propagation.follow"):
            return
        if not op:
            self.notify("no op is chosen here", severity="warning")
            return
        session = self.owner.session
        self.owner.go(ScreenAddress(session.target, session.kind, op=op, view="propagation"))

    def action_part_mark(self, what: str) -> None:
        """Mark the op under the cursor as a start or an end of a part."""
        op = self.current_op()
        if not self.allowed(f"part.{what}"):
            return
        if not op:
            self.notify("no op is chosen here", severity="warning")
            return
        self.mark_part(what, op)

    def mark_part(self, what: str, op: str) -> None:
        """Mark *op* of the device's graph; the view of parts shows more."""
        history = self.owner.session.marks
        marks = history.now if history.now.side is Side.DEVICE else Marks()
        history.set(marks.toggled(what, op))
        now = history.now
        starts, ends = wording.count(len(now.starts), "start"), wording.count(len(now.ends), "end")
        self.notify(f"{starts} and {ends} marked; 5 shows the part between")

    def current_topo(self) -> int:
        """Where in execution order the user is; -1 before the first op."""
        return -1

    def action_open_filter(self) -> None:
        """Type a filter over the list of ops."""
        if self.allowed("filter.open"):
            self.owner.open_filter(None)

    def action_zoom(self) -> None:
        """Let the focused pane fill the screen, or restore it."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused, container=False)

    def action_back(self) -> None:
        """Go to the place before."""
        if self.allowed("jump.back"):
            self.owner.jump(-1)

    def action_forward(self) -> None:
        """Go to the place after."""
        if self.allowed("jump.forward"):
            self.owner.jump(1)

    def named_op(self) -> str:
        """The op whose name ``y`` offers."""
        return self.current_op()

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """What ``y`` offers: what it is, to its letter and text."""
        op = self.named_op()
        choices = {"name": ("n", op)} if op else {}
        choices["address"] = "l", str(self.address())
        commands = self.owner.session.commands
        if commands:
            choices["command"] = ("c", commands[-1])
        return choices

    def action_yank(self) -> None:
        """Offer what can be copied."""
        self.owner.offer_copies(self.yank_choices())

    def action_log(self) -> None:
        """List the equivalent shell commands."""
        self.owner.show_log()

    def action_theme(self) -> None:
        """Show everything in the next theme, and keep it for later sessions."""
        self.owner.next_theme()

    def action_words(self) -> None:
        """Explain the columns of the list in focus, and the words of the judgement."""
        from tui.render.words_page import words_page

        glyphs, focused = self.owner.settings.glyphs, self.focused
        columns = tuple(focused.source.columns) if isinstance(focused, RowList) else ()
        self.owner.show_text("Words", lambda width: words_page(glyphs, columns, width))

    def action_why(self) -> None:
        """Say what to do about the run, and why the op under the cursor is judged so."""
        from tui.screens.windows.why import WhyOverlay

        if self.allowed("why"):
            session, op = self.owner.session, self.current_op()
            session.note("advise", session.target)
            session.note("origins", session.target, "--explain")
            self.app.push_screen(WhyOverlay(self.owner.settings.glyphs, session, op))

    def pictures(self) -> tuple[PlacedPicture, ...]:
        """What is drawn in pixels over the cells of the view, where the terminal can."""
        return ()

    def action_help(self) -> None:
        """Explain the keys."""
        self.owner.show_help(self.SCOPES, self.unavailable())

    def action_close(self) -> None:
        """Restore a maximised pane."""
        if self.maximized is not None:
            self.minimize()

    def _line_keys(self) -> Sequence[Key]:
        keys = {key.id: key for key in self.owner.keys}
        return [keys[key_id] for key_id in self.SHOWN_KEYS]
