"""The first screen: the demo, a new comparison, and what lies below this folder and fits."""

from __future__ import annotations

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.address import ScreenAddress
from tui.jobs.nearby import Nearby, NearbyPair, NearbySearch
from tui.jobs.pair_rows import PAIR_COLUMNS, pair_row, pair_text
from tui.keys import BY_ID, KeyScope, bindings
from tui.screens.job_forms import JobStarter
from tui.style import theme
from tui.style import words as wording
from tui.widgets.columns import ListColumn
from tui.widgets.lines import StatusLine, TitleLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows
from tui.widgets.text_pane import TextPane

_CHOICES = (
    ("start.demo", "demo", "a LeNet training step whose bias is lost in half of its channels"),
    ("start.compare", "form('compare')", "golden and device model, and a dump of each"),
    ("start.import", "form('import')", "a graph alone: look around in it, without values"),
    ("start.capture", "form('capture')", "every tensor of a model: the golden dump, made here"),
    ("start.store", "app.other_store", "runs that are kept elsewhere: a folder, or Neo4j"),
)
"""Keys with their actions and what one gets."""


class StartScreen(JobStarter):
    """What one can begin with."""

    VIEW = "start"
    CRUMB = "Start"
    SCOPES = (KeyScope.START, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.START)
    SHOWN_KEYS = (
        "start.demo",
        "start.compare",
        "start.import",
        "start.capture",
        "start.store",
        "start.look",
        "view.runs",
        "view.jobs",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._pairs: tuple[NearbyPair, ...] = ()
        self._search: NearbySearch | None = None
        self._looked = False

    def body(self) -> ComposeResult:
        """What can be begun; what was found, the row under the cursor in full."""
        glyphs = self.owner.settings.glyphs
        yield Static("", id="welcome", markup=False)
        yield RowList(FixedRows(()), glyphs, id="choices")
        yield RowList(FixedRows(()), glyphs, id="pairs", empty="looking")
        yield TextPane(id="pair-about")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """List what can be begun."""
        super().on_mount()
        self.query_one("#choices", RowList).name_pane("Begin")
        self.query_one("#pairs", RowList).name_pane("Found below this folder")
        about = self.query_one("#pair-about", TextPane)
        about.name_pane("Both sides")
        about.add_class("-nothing")
        keys_by_id = {key.id: key for key in self.owner.keys}
        rows = [
            (
                Cell(keys_by_id[name].shown, "linked"),
                Cell(BY_ID[name].help),
                Cell(help_text, "quiet"),
            )
            for name, _, help_text in _CHOICES
        ]
        columns = (
            ListColumn("key", "key", 3, sortable=False),
            ListColumn("what", "what", 22, 24, sortable=False),
            ListColumn("about", "what it gives", 20, 80, sortable=False, priority=1),
        )
        choices = self.query_one("#choices", RowList)
        choices.show(FixedRows(columns, rows))
        choices.focus()

    def on_unmount(self) -> None:
        """Nobody waits for the search any more."""
        if self._search is not None:
            self._search.stop()

    def show_address(self, address: ScreenAddress) -> None:
        """Look below the folder, the first time."""
        session = self.owner.session
        self.query_one(TitleLine).show(["divergraph", self.CRUMB], session.store_name)
        self.ask("stored", lambda: any(session.targets()), self._welcome)
        self.filled()
        if not self._looked:
            self._looked = True
            self._look_below()

    def _welcome(self, has_targets: bool) -> None:
        greeting = "Begin something new." if has_targets else "Nothing is stored here yet."
        self.query_one("#welcome", Static).update(Content.styled(f" {greeting}", theme.HEADING))

    def load(self, address: ScreenAddress) -> None:
        """Nothing of a run is shown."""

    def action_look(self) -> None:
        """Look again."""
        if self.allowed("start.look"):
            self._look_below()

    def _look_below(self) -> None:
        folder = self.owner.settings.export_dir
        self._search = NearbySearch(folder)
        self.query_one("#pairs", RowList).show(FixedRows(()), empty="looking; esc stops")
        self._say(f"looking for models and dumps below {folder.resolve()}")
        self._wait_for(self._search)

    @work(thread=True, group="nearby", exit_on_error=False)
    def _wait_for(self, search: NearbySearch) -> None:
        try:
            self.call_later(self._show_found, search, search.found())
        except (DivergraphError, OSError) as error:
            self.call_later(self._show_found, search, Nearby(), str(error))

    def _show_found(self, search: NearbySearch, nearby: Nearby, trouble: str = "") -> None:
        """Show what lies below the folder; *trouble* says why nothing could be found, if so."""
        if search is not self._search:
            return  # stopped, or one looked again
        self._search = None
        self._pairs = nearby.pairs
        rows = [pair_row(pair) for pair in self._pairs]
        graphs, dumps = (
            wording.count(number, noun)
            for number, noun in ((nearby.graphs, "graph"), (nearby.dumps, "dump"))
        )
        separator = f" {self.owner.settings.glyphs.separator} "
        texts = [f"{graphs} and {dumps} found", *([nearby.cut] if nearby.cut else [])]
        listed = self.query_one("#pairs", RowList)
        listed.show(FixedRows(PAIR_COLUMNS, rows), empty="nothing here fits together")
        listed.border_subtitle = Content(wording.count(len(rows), "pair"))
        self._say(trouble or separator.join(texts))
        self.query_one("#pair-about", TextPane).set_class(not rows, "-nothing")
        if rows and self.query_one("#choices", RowList).has_focus:
            listed.focus()

    @on(RowList.Moved, "#pairs")
    def _moved(self, event: RowList.Moved) -> None:
        pair = self._pairs[event.index] if 0 <= event.index < len(self._pairs) else None
        glyphs = self.owner.settings.glyphs
        self.query_one("#pair-about", TextPane).show(lambda width: pair_text(pair, glyphs, width))

    @on(RowList.Opened, "#pairs")
    def _fill_in(self, event: RowList.Opened) -> None:
        self.open_form("compare", self._pairs[event.index].texts())

    @on(RowList.Opened, "#choices")
    async def _begin(self, event: RowList.Opened) -> None:
        await self.run_action(_CHOICES[event.index][1])

    def action_demo(self) -> None:
        """Start the demo as a job."""
        self.owner.start_job(("demo", "--store", self.owner.session.url))

    def action_form(self, name: str) -> None:
        """Show the form of a command."""
        self.open_form(name, {})

    def action_close(self) -> None:
        """Stop looking, else restore a maximised pane."""
        search, self._search = self._search, None
        if search is None:
            super().action_close()
        else:
            search.stop()
            self.query_one("#pairs", RowList).show(FixedRows(()), empty="r looks again")
            self._say("stopped looking")

    def why_not(self, key_id: str) -> str | None:
        """Why a key does nothing at present."""
        if key_id == "start.look" and self._search is not None:
            return "it is looking; esc stops"
        return super().why_not(key_id)

    def yank_choices(self) -> dict[str, tuple[str, str]]:
        """The last command, if there is one."""
        commands = self.owner.session.commands
        return {"command": ("c", commands[-1])} if commands else {}

    def _say(self, text: str) -> None:
        content = Content.styled(f" {printable(text)}", theme.QUIET)
        self.query_one("#status", StatusLine).show(content.truncate)
