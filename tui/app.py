"""The app: which views there are, the session they share, going from place to place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.events import Event, Key, Resize
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from divergraph.jobs.background.shelf import JobShelf, store_key
from divergraph.text.printable import printable
from graphstore.errors import InputError
from graphstore.open_store import open_existing
from graphstore.private_folder import private_folder
from tui.address import ScreenAddress, parse_address
from tui.job_follower import JobFollower
from tui.jobs.served import jobs_of
from tui.jobs.watched import WatchedJobs
from tui.keys import KeyScope, bindings, remapped
from tui.leaving import run_app
from tui.messages import Failed, OpenFilter, OpenOp, OpenTarget, ask
from tui.screens.base import ViewScreen
from tui.screens.overview import OverviewScreen
from tui.screens.palette import PaletteProvider
from tui.screens.runs import RunsScreen
from tui.screens.windows.line_form import LineForm
from tui.screens.windows.overlays import LogOverlay, TextOverlay, YankOverlay, help_text
from tui.session import Session
from tui.settings import THEMES, Settings, keep_theme, load_settings
from tui.terminal.backlog import Backlog
from tui.terminal.changed_cells import TerminalCells
from tui.terminal.only_text import OnlyText
from tui.trouble import unexpected
from tui.typed_ahead import TypedAhead
from tui.widgets.text_pane import Build

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.filter import LineFilter
    from textual.notifications import SeverityLevel
    from textual.screen import Screen


_STEP = 0.01
"""Seconds between two looks whether a view is complete."""


def _loaded(module: str, screen: str) -> Callable[[], ViewScreen]:
    """A view whose code is loaded when somebody goes there, not before the first frame."""

    def make() -> ViewScreen:
        view_screen: ViewScreen = getattr(import_module(f"tui.screens.{module}"), screen)()
        return view_screen

    return make


class DivergraphApp(JobFollower):
    """Browses the runs and graphs of one store."""

    BINDINGS = bindings(KeyScope.WINDOWS)
    CSS_PATH = "app.tcss"
    TITLE = "divergraph"
    MODES: ClassVar[dict[str, Callable[[], ViewScreen]]] = {  # type: ignore[assignment]
        "runs": RunsScreen,
        "overview": OverviewScreen,
        "ops": _loaded("ops", "OpsScreen"),
        "lineage": _loaded("lineage", "LineageScreen"),
        "propagation": _loaded("propagation", "PropagationScreen"),
        "submodel": _loaded("submodel", "SubmodelScreen"),
        "tensor": _loaded("tensor_view.screen", "TensorScreen"),
        "query": _loaded("query", "QueryScreen"),
        "jobs": _loaded("jobs", "JobsScreen"),
        "start": _loaded("start", "StartScreen"),
    }
    DEFAULT_MODE = "runs"
    COMMANDS: ClassVar = {PaletteProvider}
    COMMAND_PALETTE_BINDING = "ctrl+p"

    next_store = ""
    """The store to open once this one was left; empty to leave for good."""

    def __init__(self, session: Session, settings: Settings, start: str | None = None) -> None:
        super().__init__()
        self.session = session
        self.settings = settings
        self.begin_with(THEMES[settings.theme])
        self.keys = remapped(dict(settings.keymap))
        self._start = start
        self.coming = []
        self._told: set[str] = set()
        self._left = False
        self._only_text = OnlyText()
        self._terminal = TerminalCells(settings.pixels)
        self._backlog = Backlog(self)
        self.typed_ahead = TypedAhead(self, self.keys, super().on_event)
        self.animation_level = "none"
        here = JobShelf(settings.state_dir / "jobs"), store_key(session.url)
        self.watched = jobs_of(session.url) or WatchedJobs(*here)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What all lines of all widgets pass: the framework's own filters, then ours."""
        return [*super().get_line_filters(), self._only_text]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write what *renderable* changes on the terminal.

        The framework has no public way to stand between a screen and the terminal; a test in a
        real one fails if this is no longer called.
        """
        if isinstance(renderable, CompositorUpdate):
            if self._backlog.holds(self._driver):
                return
            pictures = screen.pictures() if isinstance(screen, ViewScreen) else ()
            if screen is self.screen and self._terminal.place(pictures):
                screen.refresh()
            renderable = self._terminal.only_changes(renderable)
        super()._display(screen, renderable)

    async def on_event(self, event: Event) -> None:
        """Handle *event*, unless it is a key that has to wait."""
        if isinstance(event, Resize):
            self._terminal.forget()
        if not self.typed_ahead.holds(event):
            await super().on_event(event)

    def on_key(self, event: Key) -> None:
        """Say once of each key that nobody took that it does nothing here."""
        free = event.is_printable and isinstance(self.screen, ViewScreen)
        if free and event.key not in self.screen.active_bindings and event.key not in self._told:
            self._told.add(event.key)
            self.notify(f"{event.character} does nothing here; ? lists the keys")

    def on_mount(self) -> None:
        """Set theme and keys, then ask the store where to start."""
        self.mutate_reactive(App.theme)  # chosen before anybody watched it
        self.set_keymap(dict(self.settings.keymap))
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self._find_start()
        self.follow_jobs()

    def on_unmount(self) -> None:
        """Let go of the store, if no question still runs."""
        self.session.close()
        self.watched.close()

    def _find_start(self) -> None:
        def find() -> tuple[ScreenAddress | None, bool]:
            address = start_address(self.session, self._start)
            return address, address is None and not any(self.session.targets())

        async def start(place: tuple[ScreenAddress | None, bool]) -> None:
            address, is_empty = place
            if address is None:
                await self._show(ScreenAddress(""), "start" if is_empty else "runs")
            else:
                self.go(address)

        ask(self, "start", find, start, lambda error: self.screen.post_message(Failed(error)))

    @on(Worker.StateChanged)
    def _start_ended(self, event: Worker.StateChanged) -> None:
        error = event.worker.error if event.worker.group == "start" else None
        if event.state is WorkerState.ERROR and error is not None:
            self.screen.post_message(Failed(unexpected(error, self.settings.state_dir)))

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """Leave, once all views and windows are complete.

        The framework gives a view that it builds while the app ends none of its panes, and the
        view ends in an error where it looks for them.
        """
        self._left = True
        screens = {screen for stack in self._screen_stacks.values() for screen in stack}
        nodes = (node for screen in screens for node in screen.walk_children(with_self=True))
        if all(isinstance(node, Widget) and node.is_mounted for node in nodes):
            super().exit(result, return_code, message)
        else:
            # No timer of the app: a signal has none of what those need.
            again = partial(self.exit, result, return_code, message)
            asyncio.get_running_loop().call_later(_STEP, again)

    def go(self, address: ScreenAddress) -> None:
        """Go to *address* and remember it in the jump list."""
        self.session.jumps.visit(address)
        self._show_later(address)

    def jump(self, direction: int) -> None:
        """Go back (-1) or forward (1) in the jump list."""
        address = self.session.jumps.step(direction)
        if address is not None:
            self._show_later(address)

    def _show_later(self, address: ScreenAddress) -> None:
        if address.view not in ("runs", "start"):
            self.session.look_at(address.target, address.kind)
        self.coming.append(address.view)
        self.call_later(self._show, address, address.view)

    async def _show(self, address: ScreenAddress, view: str) -> None:
        if self._left:
            return
        await self.switch_mode(view)
        if view in self.coming:
            self.coming.remove(view)
        screen = self.screen
        if isinstance(screen, ViewScreen):
            screen.show_address(address)

    def open_op(self, op: str) -> None:
        """Show *op* in the list of ops, keeping that list's filter and order if it is open."""
        from tui.screens.ops import OpsScreen

        screen = self.screen
        session = self.session
        here = screen.address() if isinstance(screen, OpsScreen) else None
        address = here or ScreenAddress(session.target, session.kind, view="ops")
        self.go(replace(address, op=op))

    def open_filter(self, where: str | None) -> None:
        """Go to the list of ops, filtered by *where*, or with the cursor in its filter."""
        from tui.screens.ops import OpsScreen

        if not isinstance(self.screen, OpsScreen):
            session = self.session
            self.go(ScreenAddress(session.target, session.kind, view="ops", where=where or ""))
        if where is None:
            self.call_later(self._type_filter)

    def _type_filter(self) -> None:
        from tui.screens.ops import OpsScreen

        if isinstance(self.screen, OpsScreen):
            self.screen.open_filter(None)

    @on(OpenOp)
    def _open_op(self, event: OpenOp) -> None:
        self.open_op(event.op)

    @on(OpenFilter)
    def _open_filter(self, event: OpenFilter) -> None:
        self.open_filter(event.where)

    @on(OpenTarget)
    def _open_target(self, event: OpenTarget) -> None:
        view = "overview" if event.kind == "run" else "ops"
        self.go(ScreenAddress(event.name, event.kind, view=view))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Say *message*, in which names stay names: never markup, nothing a terminal obeys."""
        del markup
        super().notify(
            printable(message), title=title, severity=severity, timeout=timeout, markup=False
        )

    def show_text(self, title: str, build: Build) -> None:
        """Show a long text in a window."""
        self.push_screen(TextOverlay(self.settings.glyphs, title, build))

    def show_help(self, scopes: Sequence[KeyScope], unavailable: Mapping[str, str]) -> None:
        """Show the keys, those of *scopes* first."""
        from graphstore.filter import FIELDS

        fields = [(field.name, field.help) for field in FIELDS]
        path = str(self.settings.path or "")
        help_args = (self.settings.glyphs, self.keys, scopes, unavailable, fields, path)
        self.show_text("Keys", lambda width: help_text(*help_args, width))

    def next_theme(self) -> None:
        """Show everything in the next theme, and keep it unless the settings file says one."""
        names = list(THEMES)
        names_by_theme = {theme_name: name for name, theme_name in THEMES.items()}
        name = names[(names.index(names_by_theme[self.theme]) + 1) % len(names)]
        self.theme = THEMES[name]
        try:
            keep_theme(name, self.settings.state_dir)
        except OSError as error:
            self.notify(f"{name}; not kept: {error.strerror}", severity="warning")
        else:
            self.notify(f"colours: {name}")

    def action_other_store(self) -> None:
        """Ask for another store; one that can be opened takes the place of this one."""
        note = "a folder, or bolt://host:7687; runs and marks of this one are left as they are"
        form = LineForm(self.settings.glyphs, "Open another store", note=note)
        self.push_screen(form, self._try_store)

    def _try_store(self, url: str | None) -> None:
        if url is None:
            return

        def look() -> str:
            with open_existing(url) as store:
                store.graphs()  # a server is asked nothing before
            return url

        def opened(url: str) -> None:
            self.next_store = url
            self.exit()

        ask(self, "other-store", look, opened)

    def action_redraw(self) -> None:
        """Write the whole screen anew: something else wrote to the terminal."""
        self._terminal.forget()
        self.refresh(layout=True)

    def show_log(self) -> None:
        """Show the shell commands equal to what was on screen."""
        self.push_screen(LogOverlay(self.settings.glyphs, self.session.commands), self.copy)

    def offer_copies(self, choices: Mapping[str, tuple[str, str]]) -> None:
        """Let the user choose what to copy."""
        self.push_screen(YankOverlay(self.settings.glyphs, choices), self.copy)

    def copy(self, text: str | None) -> None:
        """Copy *text* by the terminal (OSC 52), and to a file since none confirms that."""
        if not text:
            return
        self.copy_to_clipboard(text)
        path = self.settings.state_dir / "copied.txt"
        try:
            private_folder(path.parent)
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            self.notify(f"copied; not kept in {path}: {error.strerror}")
        else:
            self.notify(f"copied; also in {path}")


def start_address(session: Session, start: str | None) -> ScreenAddress | None:
    """Where to begin: at *start* (a run, graph or address), at the only run, or None."""
    runs, graphs = session.targets()
    if start is None:
        only = runs[0].name if len(runs) == 1 and not graphs else None
        return ScreenAddress(only, view="overview") if only else None
    if any(run.name == start for run in runs):
        return ScreenAddress(start, view="overview")
    if any(graph.name == start for graph in graphs):
        return ScreenAddress(start, "graph", view="ops")
    try:
        address = parse_address(start)
    except InputError:
        return ScreenAddress(start, view="overview")
    view = address.view if address.view in DivergraphApp.MODES else ""
    return replace(address, view=view or ("ops" if address.op else "overview"))


_PATIENCE = 2.0
"""Seconds in which a lost server is asked again: longer, and nobody would know why they wait."""


def run(store_url: str, run: str | None) -> int:
    """Browse the store at *store_url*, starting with *run*; returns the exit code.

    *run* may be a run, an imported graph, an address, or None for a choice.
    """
    from graphstore.open_store import open_store

    url, start = store_url, run
    while True:
        store = partial(open_store, url, patience=_PATIENCE)
        app = DivergraphApp(Session(store, url), load_settings(), start)
        code = run_app(app)
        if not app.next_store:
            return code
        url, start = app.next_store, None
