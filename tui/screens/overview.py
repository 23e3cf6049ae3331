"""View 1: is the model wrong, and where does it start?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll

from graphstore.filter import quoted
from graphstore.model import Metric
from tui.address import ScreenAddress
from tui.keys import KeyScope
from tui.messages import OpenFilter, OpenOp
from tui.render import overview_rows, overview_text
from tui.render.why_text import remedy_of
from tui.screens.base import ViewScreen
from tui.widgets.curve import Curve
from tui.widgets.curve_ops import ChartField, CurveOps, chart_filter, metric_ops
from tui.widgets.lines import KeyLine, StatusLine
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane
from tui.widgets.titled import Titled

_ADVISED = 50_000
"""Up to so many ops the advice is asked for without a key; it reads the whole run."""

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from divergraph.ask.answers import Overview
    from graphstore.op_row import OpRow


class OverviewScreen(ViewScreen):
    """Verdict, origins, cosine along execution order, worst modules, what is missing."""

    VIEW = "overview"
    CRUMB = "Overview"
    SCOPES = (KeyScope.LIST, KeyScope.CURVE, KeyScope.EVERYWHERE)
    SHOWN_KEYS = (
        "list.open",
        "origin.first",
        "origin.next",
        "propagation.follow",
        "why",
        "filter.open",
        "yank",
        "jump.back",
        "jump.forward",
        "view.runs",
        "commands",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._overview: Overview | None = None
        self._advice: Advice | None = None
        self._origins: Sequence[OpRow] = ()
        self._modules: Sequence[str] = ()
        self._reasons: Sequence[str] = ()
        self._drawn_only: Mapping[ChartField, str] = {}

    def body(self) -> ComposeResult:
        """Two panes above, the chart, two panes below, one line of counts."""
        glyphs = self.owner.settings.glyphs
        with VerticalScroll(id="panes", can_focus=False):
            with Horizontal(classes="pair", id="top"):
                yield TextPane("Verdict", id="verdict")
                yield RowList(FixedRows(()), glyphs, id="origins", empty="loading")
            yield Curve(glyphs, id="curve")
            with Horizontal(classes="pair", id="bottom"):
                yield RowList(FixedRows(()), glyphs, id="modules", empty="loading")
                yield RowList(FixedRows(()), glyphs, id="reasons", empty="loading")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """Name the panes and wait for the answer."""
        super().on_mount()
        titles = {
            "#origins": "Where the error starts",
            "#curve": "Cosine along execution order",
            "#modules": "Worst modules",
            "#reasons": "Not compared: why",
        }
        for selector, title in titles.items():
            self.query_one(selector, Titled).name_pane(title)
        self.query_one("#origins").focus()

    def load(self, address: ScreenAddress) -> None:
        """Ask for the overview."""
        self.owner.session.note("origins", address.target)
        self._advice, self._drawn_only = None, {}
        self._ask()

    def _ask(self) -> None:
        """The verdict first, then all, then what to do about it."""
        session = self.owner.session

        def load() -> tuple[Overview, CurveOps]:
            if session.known_overview() is None:
                self.call_later(self._show, session.first_look(), None)
            return session.overview(), metric_ops(session.curve(Metric.COSINE_SIMILARITY.value))

        def loaded(answer: tuple[Overview, CurveOps]) -> None:
            self._show(*answer)
            if answer[0].device_ops <= _ADVISED:
                self.ask("advice", session.advice, self._show_advice)

        self.ask("overview", load, loaded)

    def same_query(self) -> tuple[str, str]:
        """The origins by the store's own words."""
        return "first_diverging", ""

    def _show(self, overview: Overview, curve: CurveOps | None) -> None:
        glyphs = self.owner.settings.glyphs
        self._overview = overview
        self._show_origins(overview)
        self._show_verdict()
        self.query_one("#status", StatusLine).show(
            lambda width: overview_text.status(overview, glyphs, width)
        )
        if curve is None:  # the rest is still to come
            return
        self.filled()
        self.query_one(Curve).show(curve)
        self._modules = [module.name for module in overview.modules]
        modules = self.query_one("#modules", RowList)
        modules.show(overview_rows.modules(overview, glyphs), empty="names have no name spaces")
        self._reasons = [group.reason.value for group in overview.reasons]
        reasons = self.query_one("#reasons", RowList)
        reasons.show(overview_rows.reasons(overview), empty="every tensor was compared")
        self.query_one(KeyLine).draw()

    def _show_advice(self, advice: Advice) -> None:
        self._advice = advice
        self._show_verdict()

    def _show_verdict(self) -> None:
        overview, glyphs = self._overview, self.owner.settings.glyphs
        if overview is None:
            return
        accused, advice = self.query_one("#origins", RowList).cursor, self._advice
        remedy = remedy_of(advice, self.current_op()) if advice is not None else ""
        self.query_one("#verdict", TextPane).show(
            lambda width: overview_text.verdict(overview, glyphs, width, accused, remedy)
        )

    @on(RowList.Moved, "#origins")
    def _tell_of_another(self) -> None:
        self._show_verdict()

    def _show_origins(self, overview: Overview) -> None:
        glyphs = self.owner.settings.glyphs
        listed = self.query_one("#origins", RowList)
        self._origins = overview_rows.listed(overview)
        title = overview_text.origins_title(overview)
        listed.name_pane(title)
        empty = "nothing was compared" if overview.is_whole else "loading"
        listed.show(overview_rows.origins(overview, glyphs), cursor=listed.cursor, empty=empty)

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        which = event.rows.id
        if which == "origins":
            self.post_message(OpenOp(self._origins[event.index].id))
        elif which == "modules":
            self.post_message(OpenFilter(f"ns:{quoted(self._modules[event.index])}"))
        else:
            self.post_message(OpenFilter(f"reason:{self._reasons[event.index]}"))

    @on(Curve.OtherMetric)
    def _ask_for_metric(self, event: Curve.OtherMetric) -> None:
        session, chosen = self.owner.session, self._drawn_only
        where = chart_filter(chosen)
        self.ask(
            "curve",
            lambda: metric_ops(session.next_curve(event.shown, event.places, where), where),
            lambda curve: self._show_curve((curve, chosen)),
        )

    @on(Curve.Narrowed)
    def _ask_for_ops(self, event: Curve.Narrowed) -> None:
        session, chosen_before = self.owner.session, self._drawn_only

        def narrow() -> tuple[CurveOps, Mapping[ChartField, str]]:
            curve, chosen = session.narrowed_curve(event.metric, event.field, chosen_before)
            return metric_ops(curve, chart_filter(chosen)), chosen

        self.ask("curve", narrow, self._show_curve)

    def _show_curve(self, narrowed: tuple[CurveOps, Mapping[ChartField, str]]) -> None:
        """Show the ops by a metric, of those that were chosen."""
        curve, self._drawn_only = narrowed
        self.query_one(Curve).show(curve)

    @on(Curve.Beyond)
    def _list_beyond(self, event: Curve.Beyond) -> None:
        self.post_message(OpenFilter(event.where))

    @on(Curve.Opened)
    def _open_from_curve(self, event: Curve.Opened) -> None:
        self.post_message(OpenOp(event.op))

    def current_op(self) -> str:
        """The origin under the cursor."""
        index = self.query_one("#origins", RowList).cursor
        return self._origins[index].id if index < len(self._origins) else ""
