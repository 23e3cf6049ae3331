"""View 7: Cypher, own or named; what it gives opens in the other views."""

from __future__ import annotations

import textwrap
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.events import Key
from textual.widgets import Input

from divergraph.ask.cypher_words import completions, word_before
from divergraph.text.printable import printable
from graphstore.cancellation import Cancellation, CancelledError
from graphstore.cypher.queries import NamedQuery, list_queries, own_queries
from graphstore.cypher.user_question import CypherQuestion
from graphstore.errors import DivergraphError, InputError, QueryError
from tui.address import ScreenAddress
from tui.keys import KeyScope, bindings, without_letters
from tui.messages import ask
from tui.query_files import QueryFiles
from tui.query_words import longest_start, parse_settings, schema_lines, settings_text
from tui.screens.answer_actions import AnswerActions
from tui.screens.windows.line_form import LineForm
from tui.style import theme
from tui.style import words as wording
from tui.widgets.columns import ListColumn
from tui.widgets.cypher_editor import CypherEditor
from tui.widgets.lines import KeyLine, StatusLine
from tui.widgets.plain_input import PlainInput
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from graphstore.contract import QueryResult

_BUILT_IN, _OWN = "built in", "mine"


class QueryScreen(AnswerActions, inherit_bindings=False):
    """The text, its parameters, the known queries, and the answer.

    A letter that no list takes is text, and goes to the editor.
    """

    VIEW = "query"
    CRUMB = "Query"
    SCOPES = (KeyScope.ANSWER, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = [*bindings(KeyScope.ANSWER), *without_letters(KeyScope.EVERYWHERE)]  # noqa: RUF012
    SHOWN_KEYS = (
        "answer.ask",
        "answer.edit",
        "list.open",
        "answer.filter",
        "answer.export",
        "commands",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._named = NamedQuery("", "", "")
        self._listed: list[tuple[str, str]] = []
        self._queries: list[NamedQuery] = []
        self._under_way: Cancellation | None = None
        self._past = 0

    def body(self) -> ComposeResult:
        """Text and known queries above, the answer below."""
        glyphs = self.owner.settings.glyphs
        with Horizontal(id="question"):
            with Container(id="asked"):
                yield CypherEditor(self._completed)
                yield PlainInput(
                    id="settings",
                    compact=True,
                    placeholder="parameters: name=value --limit 1000 --timeout 30",
                )
            yield RowList(FixedRows(()), glyphs, id="known")
            yield TextPane("What there is", id="schema")
        yield RowList(FixedRows(()), glyphs, id="answer", empty="f5 asks")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """List the known queries; the cursor goes where one types."""
        super().on_mount()
        self.files = QueryFiles(self.owner.settings.state_dir / "queries")
        self.query_one(CypherEditor).name_pane("Cypher")
        self.query_one("#known", RowList).name_pane("Queries")
        self.query_one("#answer", RowList).name_pane("Answer")
        self.query_one("#settings", PlainInput).cursor_blink = False
        self._list_known()
        self.query_one("#schema", TextPane).show(_schema)
        self.query_one(CypherEditor).focus()

    def on_key(self, event: Key) -> None:
        """Type a letter into the editor that the focused list has no use for."""
        letter = event.character or ""
        free = letter.isalpha() and event.key not in self.active_bindings
        if free and isinstance(self.focused, RowList):
            editor = self.query_one(CypherEditor)
            editor.focus()
            editor.insert(letter)
            event.stop()

    def _list_known(self) -> None:
        own = self.files.own()
        self._listed = [(name, _OWN) for name in own]
        try:
            self._queries = list_queries()
        except InputError as error:  # a pack that was spoilt since the start
            self._say(str(error), theme.ERROR)
            self._queries = own_queries()
        self._listed += [(query.name, query.pack or _BUILT_IN) for query in self._queries]
        columns = (
            ListColumn("name", "query", 10, 30, sortable=False),
            ListColumn("whose", "whose", 8, sortable=False, priority=1),
        )
        rows = [(Cell(name, "linked"), Cell(whose, "quiet")) for name, whose in self._listed]
        self.query_one("#known", RowList).show(FixedRows(columns, rows))

    def load(self, address: ScreenAddress) -> None:
        """Another run: its answers are gone."""
        self.show_answer(None)
        self.filled()
        self.restore(address)

    def restore(self, address: ScreenAddress) -> None:
        """Show the query that another view asked to be shown."""
        wanted = self.owner.session.take_query()
        if wanted is not None:
            self._show_named(*wanted)
            self._ask(plan=False)

    def _show_named(self, name: str, op: str) -> None:
        """Fill in the query *name*; parameters that are ops get *op*."""
        query = next((query for query in self._queries if query.name == name), None)
        text = query.text if query is not None else self.files.own().get(name, "")
        places = [name for name, _ in self._listed]
        if name in places:
            self.query_one("#known", RowList).cursor = places.index(name)
        self._named = query or NamedQuery("", "", "")
        self.query_one(CypherEditor).text = text
        parameters = {
            name: op if "op" in kind else _EXAMPLES.get(kind, "")
            for name, kind in self._named.parameters.items()
        }
        self.query_one("#settings", PlainInput).value = settings_text(parameters)
        self._say(self._named.answers or f"{name}: your own", theme.QUIET)

    @on(RowList.Opened, "#known")
    def _take_known(self, event: RowList.Opened) -> None:
        name, _ = self._listed[event.index]
        self._show_named(name, self.owner.session.last_op)
        missing = [name for name, kind in self._named.parameters.items() if "op" in kind]
        if missing and not self.owner.session.last_op:
            self.query_one("#settings", PlainInput).focus()
            self._say(f"say {missing[0]}, then enter", theme.LINKED)
        else:
            self._ask(plan=False)

    def _completed(self, before: str) -> tuple[str, tuple[str, ...]]:
        """What to add to *before*, and the words it may become."""
        words = completions(before, self._named.parameters)
        if not words:
            return "", ()
        return longest_start(words)[len(word_before(before)) :], words

    @on(CypherEditor.Offered)
    def _offer(self, event: CypherEditor.Offered) -> None:
        text = "  ".join(event.words) or "no word begins so"
        self._say(text, theme.QUIET)

    @on(CypherEditor.Asked)
    def _asked(self, event: CypherEditor.Asked) -> None:
        self._ask(plan=event.plan)

    @on(Input.Submitted, "#settings")
    def _settings_said(self) -> None:
        self._ask(plan=False)

    def action_ask(self) -> None:
        """Ask again."""
        self._ask(plan=False)

    def _ask(self, *, plan: bool) -> None:
        text = self.query_one(CypherEditor).text
        typed = self.query_one("#settings", PlainInput).value
        if not text.strip():
            self._say("type a question, or choose one on the right", theme.LINKED)
            return
        try:
            settings = parse_settings(typed)
        except InputError as error:
            self._say(str(error), theme.ERROR)
            return
        session = self.owner.session
        named = self._named.name if text == self._named.text else ""
        question = CypherQuestion(
            named or text, session.target, settings.given, settings.limit, settings.timeout
        )
        self._stop()
        self._under_way = Cancellation()
        self._say("asking; esc stops it", theme.LINKED)
        session.note("query", named or text, "--run", session.target, *settings.command_words())
        self.files.remember(text, typed)
        self._past = 0
        cancellation = self._under_way

        def refused(error: DivergraphError) -> None:
            if not isinstance(error, CancelledError) or cancellation is self._under_way:
                self._refused(error)

        if plan:
            work = partial(session.cypher_plan, question, cancellation)
            ask(self, "query", work, self._planned, refused)
        else:
            answer = partial(session.cypher, question, cancellation)
            ask(self, "query", answer, lambda rows: self._answered(*rows), refused)

    def _answered(self, answer: QueryResult, milliseconds: float) -> None:
        self._under_way = None
        self.show_answer(answer)
        count = wording.count(len(answer.rows), "row")
        notes = [f"the first {count}; --limit gives more" if answer.truncated else count]
        notes += [f"{milliseconds:.0f} ms", *answer.notes]
        self._say(f" {self.owner.settings.glyphs.separator} ".join(notes), theme.QUIET)
        self.query_one("#answer", RowList).focus()
        self.query_one(KeyLine).draw()

    def _planned(self, plan: str) -> None:
        self._under_way = None
        self._say("", theme.QUIET)
        lines = [printable(line) for line in plan.split("\n")]
        self.owner.show_text("Plan", lambda _: Content("\n".join(lines)))

    def _refused(self, error: DivergraphError) -> None:
        self._under_way = None
        self._say(str(error), theme.ERROR)
        if isinstance(error, QueryError) and error.position is not None:
            editor = self.query_one(CypherEditor)
            editor.choose(error.position, error.position + 1)
            editor.focus()

    def _stop(self) -> bool:
        running, self._under_way = self._under_way, None
        if running is not None:
            running.cancel()
        return running is not None

    @on(CypherEditor.Left)
    def _left(self) -> None:
        if self._stop():
            self._say("stopped", theme.QUIET)
        else:
            self.query_one("#answer", RowList).focus()

    def action_close(self) -> None:
        """Stop a question that is under way, else restore a maximised pane."""
        if self._stop():
            self._say("stopped", theme.QUIET)
        else:
            super().action_close()

    def action_edit(self) -> None:
        """Type Cypher."""
        self.query_one(CypherEditor).focus()

    @on(CypherEditor.Past)
    def _show_past(self, event: CypherEditor.Past) -> None:
        past_queries = self.files.asked()
        self._past = max(-len(past_queries), min(0, self._past + event.direction))
        if self._past:
            text, typed = past_queries[self._past]
            self.query_one(CypherEditor).text = text
            self.query_one("#settings", PlainInput).value = typed

    @on(CypherEditor.KeepAsked)
    def _keep(self) -> None:
        if not self.query_one(CypherEditor).text.strip():
            self._say("there is no text to keep", theme.LINKED)
            return
        form = LineForm(self.owner.settings.glyphs, "Keep the query as", note="a name")
        self.app.push_screen(form, self._keep_as)

    def _keep_as(self, name: str | None) -> None:
        if name is None:
            return
        try:
            path = self.files.keep(name, self.query_one(CypherEditor).text)
        except InputError as error:
            self._say(str(error), theme.ERROR)
        else:
            self._list_known()
            self._say(f"kept in {path}", theme.QUIET)

    def _say(self, text: str, style: str) -> None:
        content = Content.styled(f" {printable(text)}", style)
        self.query_one("#status", StatusLine).show(content.truncate)


def _schema(width: int) -> Content:
    """The schema as a text of *width* cells."""
    lines: list[Content] = []
    for what, properties in schema_lines():
        lines.append(Content.styled(what, theme.LINKED))
        lines += [Content(f"  {line}") for line in textwrap.wrap(properties, max(12, width - 2))]
    return Content("\n").join(lines)


_EXAMPLES = {"factor": "2", "number": "20", "count": "20"}
"""Values of parameters to start with, by kind."""
