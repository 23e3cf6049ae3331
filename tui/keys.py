"""The table of all keys: what each is called, what it does and where it works.

Bindings, the ``?`` page and ``docs/reference/keys.md`` are made from this table, and a ``[keys]``
table in the settings file gives an id other keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from textual.binding import Binding, BindingType


class KeyScope(StrEnum):
    """Where a key works; the value is its heading on the help page."""

    EVERYWHERE = "everywhere"
    WINDOWS = "in every view and every window"
    LIST = "in every list"
    TEXT = "in a text"
    RUNS = "in the list of runs"
    OPS = "in the list of ops"
    LINEAGE = "in the view of lineage"
    TENSOR = "in the view of a tensor"
    PATHS = "on the path of an error"
    PART = "while choosing a part"
    CURVE = "on the chart of a metric"
    FILTER = "while typing a filter"
    YANK = "in the copy menu"
    EDITOR = "while typing Cypher"
    ANSWER = "in the view of queries"
    FORM = "in the form of an export"
    ASKED = "in a window that asks for a line"
    AROUND = "in the drawing around an op"
    JOBS = "in the view of jobs"
    START = "on the first screen"
    JOB_FORM = "in the form of a job"
    CHOICE = "on a choice in a form"
    LEAVING = "when asked what becomes of running jobs"
    OVERLAY = "in a window over the view"


@dataclass(frozen=True, slots=True)
class Key:
    """One binding. ``keys`` are comma-separated names as Textual spells them.

    ``short`` is the word on the key line at the bottom (empty: not shown there).
    """

    id: str
    keys: str
    action: str
    scope: KeyScope
    help: str
    short: str = ""

    @property
    def shown(self) -> str:
        """The keys as a person reads them: ``ctrl+d, pagedown`` or ``?``."""
        return ", ".join(_SHOWN.get(key, key) for key in self.keys.split(","))


_SHOWN = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "at": "@",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "minus": "-",
    "plus": "+",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "escape": "esc",
    "pagedown": "page down",
    "pageup": "page up",
}

ALL, ROWS, TEXT = KeyScope.EVERYWHERE, KeyScope.LIST, KeyScope.TEXT
OPS, CURVE, PATHS, PART = KeyScope.OPS, KeyScope.CURVE, KeyScope.PATHS, KeyScope.PART
RUNS, LINEAGE, TENSOR = KeyScope.RUNS, KeyScope.LINEAGE, KeyScope.TENSOR
JOBS, START = KeyScope.JOBS, KeyScope.START

TABLE: tuple[Key, ...] = (
    Key("view.overview", "1", "view('overview')", ALL, "go to the overview"),
    Key("view.ops", "2", "view('ops')", ALL, "go to the list of ops"),
    Key(
        "view.lineage",
        "3",
        "view('lineage')",
        ALL,
        "the device graph and the original one, side by side",
    ),
    Key(
        "view.propagation", "4", "view('propagation')", ALL, "follow the error of the first origin"
    ),
    Key("view.submodel", "5", "view('submodel')", ALL, "choose a part of the model and export it"),
    Key("view.tensor", "6", "view('tensor')", ALL, "the values of this op on both sides"),
    Key("view.query", "7", "view('query')", ALL, "ask in Cypher"),
    Key("view.jobs", "8", "view('jobs')", ALL, "what runs and ran as a job; start one", "jobs"),
    Key("query.same", "Q", "same_as_cypher", ALL, "the same as what is shown, in Cypher"),
    Key("view.runs", "0", "view('runs')", ALL, "choose another run or graph", "runs"),
    Key("origin.first", "f", "first_origin", ALL, "jump to the first origin", "first origin"),
    Key("origin.next", "e", "next_origin", ALL, "next origin in execution order", "next"),
    Key("origin.previous", "E", "previous_origin", ALL, "previous origin", "prev"),
    Key("propagation.follow", "p", "follow", ALL, "follow the error of this op", "follow"),
    Key("why", "W", "why", ALL, "what to do next, and why this op is judged so", "why"),
    Key("edge.before", "less_than_sign", "edge(-1)", ALL, "to what makes an input of this op"),
    Key("edge.behind", "greater_than_sign", "edge(1)", ALL, "to what reads an output of this op"),
    Key("edge.around", "L", "around", ALL, "draw what is around this op"),
    Key("part.start", "b", "part_mark('start')", ALL, "mark a start of a part", "start"),
    Key("part.end", "B", "part_mark('end')", ALL, "mark an end of a part", "end"),
    Key("filter.open", "slash", "open_filter", ALL, "filter the ops", "filter"),
    Key("pane.next", "tab", "app.focus_next", ALL, "next pane", "pane"),
    Key("pane.previous", "shift+tab", "app.focus_previous", ALL, "previous pane"),
    Key("pane.zoom", "z", "zoom", ALL, "let the pane fill the screen, again to restore"),
    Key("jump.back", "left_square_bracket", "back", ALL, "back in the jump list", "back"),
    Key("jump.forward", "right_square_bracket", "forward", ALL, "forward in the jump list", "fwd"),
    Key("yank", "y", "yank", ALL, "copy the name, row, address or command", "yank"),
    Key("commands", "colon,ctrl+p", "app.command_palette", ALL, "find a command or an op", "find"),
    Key("log", "at", "log", ALL, "the shell commands that show the same", "shell"),
    Key("retry", "R", "retry", ALL, "after trouble with the store: reopen it and ask again"),
    Key("theme", "T", "theme", ALL, "other colours: dark, light, high contrast; kept"),
    Key("words", "f1", "words", ALL, "what the columns, states and roles mean"),
    Key("help", "question_mark", "help", ALL, "this page", "help"),
    Key("close", "escape", "close", ALL, "close, restore, or clear the filter"),
    Key("quit", "q,ctrl+c", "quit", ALL, "leave", "quit"),
    Key("redraw", "ctrl+l", "redraw", KeyScope.WINDOWS, "redraw the whole screen"),
    Key("list.down", "j,down", "move(1)", ROWS, "one row down"),
    Key("list.up", "k,up", "move(-1)", ROWS, "one row up"),
    Key("list.page_down", "ctrl+d,pagedown", "page(1)", ROWS, "one page down"),
    Key("list.page_up", "ctrl+u,pageup", "page(-1)", ROWS, "one page up"),
    Key("list.first", "g,home", "edge(-1)", ROWS, "first row"),
    Key("list.last", "G,end", "edge(1)", ROWS, "last row"),
    Key("list.left", "left", "column(-1)", ROWS, "choose the column to the left"),
    Key("list.right", "right", "column(1)", ROWS, "choose the column to the right"),
    Key("list.open", "enter", "open", ROWS, "open the row", "open"),
    Key("list.sort", "s", "sort", ROWS, "sort by the chosen column", "sort"),
    Key("list.reverse", "S", "reverse", ROWS, "reverse the order", "reverse"),
    Key("text.down", "j,down", "scroll_down", TEXT, "one line down"),
    Key("text.up", "k,up", "scroll_up", TEXT, "one line up"),
    Key("text.page_down", "ctrl+d,pagedown", "page_down", TEXT, "one page down"),
    Key("text.page_up", "ctrl+u,pageup", "page_up", TEXT, "one page up"),
    Key("text.first", "g,home", "scroll_home", TEXT, "to the top"),
    Key("text.last", "G,end", "scroll_end", TEXT, "to the bottom"),
    Key("runs.new", "n", "new", RUNS, "the demo, or models and dumps of this folder", "new"),
    Key("runs.mark", "space", "mark", RUNS, "mark a run, again to unmark", "mark"),
    Key("runs.compare", "C", "compare", RUNS, "what changed between two marked runs", "compare"),
    Key("runs.rename", "R", "rename", RUNS, "give it another name", "rename"),
    Key("runs.store", "O", "app.other_store", RUNS, "open another store", "store"),
    Key("runs.delete", "D", "delete", RUNS, "delete it; asks first", "delete"),
    Key("ops.wide", "w", "wide", OPS, "all columns in full, scrolling sideways", "wide"),
    Key("ops.mark", "space", "mark", OPS, "mark the row, again to unmark", "mark"),
    Key("ops.match_next", "n", "next_match", OPS, "next row that fits the last filter"),
    Key("ops.match_previous", "N", "previous_match", OPS, "previous row that fits"),
    Key("ops.note", "m", "note", OPS, "write down what is known of the op, for all its runs"),
    Key("ops.tensor", "d", "view('tensor')", OPS, "the values of the op on both sides", "values"),
    Key("ops.export", "x", "export", OPS, "write the marked rows, or all shown, as CSV", "export"),
    Key("lineage.unfold", "u", "unfold", LINEAGE, "what each fused op is made of", "unfold"),
    Key("lineage.linked", "o", "linked_only", LINEAGE, "only ops with a counterpart", "linked"),
    Key(
        "lineage.coarser", "minus", "fold(-1)", LINEAGE, "fold name spaces, or larger ones", "fold"
    ),
    Key("lineage.finer", "plus", "fold(1)", LINEAGE, "fold smaller name spaces, or none"),
    Key("lineage.next", "n", "found(1)", LINEAGE, "the next op of the name searched for"),
    Key("lineage.details", "d", "details", LINEAGE, "the op in the list of ops", "details"),
    Key("tensor.next", "o", "tensor(1)", TENSOR, "the next output or input", "next"),
    Key("tensor.previous", "O", "tensor(-1)", TENSOR, "the output or input before"),
    Key("tensor.axes", "a", "axes(1)", TENSOR, "errors along other axes", "axes"),
    Key("tensor.axes_before", "A", "axes(-1)", TENSOR, "errors along the axes before"),
    Key("tensor.details", "d", "details", TENSOR, "the op in the list of ops", "op"),
    Key("tensor.save", "P", "save", TENSOR, "write both sides as .npy", "save"),
    Key("paths.next", "n", "next_path", PATHS, "the path to the next output", "next path"),
    Key("paths.previous", "N", "previous_path", PATHS, "the path to the output before", "prev"),
    Key("paths.keep", "K", "blame", PATHS, "which ops to keep in higher precision: asks", "keep"),
    Key("paths.exact", "X", "what_if", PATHS, "what is left if this op were exact", "what if"),
    Key("paths.answer", "a", "blame_answer", PATHS, "what blame said last of this run", "answer"),
    Key("paths.unfold", "u", "unfold", PATHS, "all ops of the path, again to fold", "unfold"),
    Key("part.unmark", "minus", "unmark", PART, "take the marks off this op", "unmark"),
    Key("part.undo", "u", "undo", PART, "take the last change of marks back", "undo"),
    Key("part.accept", "a", "accept", PART, "take the nearest part that may be cut", "nearest"),
    Key(
        "part.side",
        "o",
        "other_side",
        PART,
        "the ops of the other graph, original or device",
        "side",
    ),
    Key("part.smallest", "i", "smallest", PART, "start where the fewest bytes go in", "fewest"),
    Key(
        "part.minimize", "A", "minimize", PART, "search the smallest part that still fails", "auto"
    ),
    Key("part.tried", "t", "tried", PART, "what that search tried", "tried"),
    Key("part.export", "x", "export", PART, "write the part with its data", "export"),
    Key("curve.left", "left", "step(-1)", CURVE, "move the marker to earlier ops"),
    Key("curve.right", "right", "step(1)", CURVE, "move the marker to later ops"),
    Key("curve.start", "home", "step(-100000)", CURVE, "move the marker to the first op"),
    Key("curve.end", "end", "step(100000)", CURVE, "move the marker to the last op"),
    Key("curve.open", "enter", "open", CURVE, "show the worst op under the marker"),
    Key("curve.metric", "m", "metric(1)", CURVE, "another metric", "metric"),
    Key("curve.metric_before", "M", "metric(-1)", CURVE, "the metric before"),
    Key("curve.type", "t", "narrow('type')", CURVE, "the ops of the next type alone", "type"),
    Key("curve.state", "s", "narrow('state')", CURVE, "the ops of the next state alone", "state"),
    Key("curve.limit_up", "plus", "limit(1)", CURVE, "move the limit up", "limit"),
    Key("curve.limit_down", "minus", "limit(-1)", CURVE, "move the limit down", "limit"),
    Key("curve.beyond", "F", "beyond", CURVE, "list the ops beyond the limit", "beyond"),
    Key("filter.accept", "enter", "accept", KeyScope.FILTER, "keep the filter, back to the list"),
    Key("filter.clear", "escape", "clear", KeyScope.FILTER, "clear the filter"),
    Key("yank.name", "n", "copy('name')", KeyScope.YANK, "copy the op's name"),
    Key("yank.row", "r", "copy('row')", KeyScope.YANK, "copy the row, tab-separated"),
    Key("yank.address", "l", "copy('address')", KeyScope.YANK, "copy the address (link)"),
    Key("yank.command", "c", "copy('command')", KeyScope.YANK, "copy the shell command"),
    Key("query.ask", "f5,ctrl+r", "ask", KeyScope.EDITOR, "ask", "ask"),
    Key("query.plan", "f8,ctrl+o", "plan", KeyScope.EDITOR, "how it would be answered"),
    Key("query.complete", "ctrl+n,ctrl+@", "complete", KeyScope.EDITOR, "complete the word"),
    Key("query.older", "ctrl+up,alt+up", "past(-1)", KeyScope.EDITOR, "the question before"),
    Key("query.newer", "ctrl+down,alt+down", "past(1)", KeyScope.EDITOR, "the question after"),
    Key("query.keep", "ctrl+s", "keep", KeyScope.EDITOR, "keep it under a name"),
    Key("query.leave", "escape", "leave", KeyScope.EDITOR, "stop it, or go to the answer"),
    Key("answer.ask", "f5,ctrl+r", "ask", KeyScope.ANSWER, "ask again", "ask"),
    Key("answer.edit", "i", "edit", KeyScope.ANSWER, "type Cypher", "edit"),
    Key("answer.filter", "F", "filter_ops", KeyScope.ANSWER, "list the ops of the answer", "ops"),
    Key("answer.export", "x", "export", KeyScope.ANSWER, "write the answer as CSV", "export"),
    Key("jobs.new", "n", "new", JOBS, "start a command: choose it, fill in its form", "new"),
    Key("jobs.log", "l", "log_of_job", JOBS, "what it printed", "log"),
    Key("jobs.stop", "X", "stop_job", JOBS, "stop it; asks first", "stop"),
    Key("jobs.go_on", "R", "go_on", JOBS, "go on with a job that was stopped or failed", "go on"),
    Key("jobs.again", "i", "again", JOBS, "its form once more, filled in", "form"),
    Key("jobs.clear", "D", "clear_job", JOBS, "take a job that has ended off the list", "clear"),
    Key("start.demo", "d", "demo", START, "the demo", "demo"),
    Key("start.compare", "n", "form('compare')", START, "a new comparison", "compare"),
    Key("start.import", "i", "form('import')", START, "read a graph only", "import"),
    Key("start.capture", "c", "form('capture')", START, "run a model here", "capture"),
    Key("start.store", "o", "app.other_store", START, "open another store", "store"),
    Key("start.look", "r", "look", START, "look again below this folder", "look again"),
    Key("job_form.start", "f5,ctrl+r", "start", KeyScope.JOB_FORM, "start the job"),
    Key("job_form.complete", "ctrl+n,ctrl+@", "complete", KeyScope.JOB_FORM, "complete a path"),
    Key("job_form.next", "down", "app.focus_next", KeyScope.JOB_FORM, "next field"),
    Key("job_form.previous", "up", "app.focus_previous", KeyScope.JOB_FORM, "previous field"),
    Key("job_form.close", "escape", "dismiss", KeyScope.JOB_FORM, "close the form"),
    Key("choice.next", "right,space", "choose(1)", KeyScope.CHOICE, "the next choice"),
    Key("choice.previous", "left", "choose(-1)", KeyScope.CHOICE, "the choice before"),
    Key("leaving.go_on", "b", "leave('go on')", KeyScope.LEAVING, "let them go on, and leave"),
    Key("leaving.stop", "X", "leave('stop')", KeyScope.LEAVING, "stop them, and leave"),
    Key("leaving.stay", "escape,q", "dismiss", KeyScope.LEAVING, "stay"),
    Key("form.export", "enter", "accept", KeyScope.FORM, "write the part"),
    Key("asked.close", "escape", "dismiss", KeyScope.ASKED, "close the window"),
    Key("around.on", "right", "walk(1)", KeyScope.AROUND, "draw around the op of the row"),
    Key("around.back", "left", "walk(-1)", KeyScope.AROUND, "draw around the op before"),
    Key("overlay.close", "escape,q", "dismiss", KeyScope.OVERLAY, "close the window"),
)

BY_ID = {key.id: key for key in TABLE}


def bindings(*scopes: KeyScope) -> list[BindingType]:
    """The bindings of *scopes* for a widget, screen or app class."""
    # The framework asks the app's own keys while a window is open only if they go first.
    first = KeyScope.WINDOWS
    return [
        Binding(key.keys, key.action, key.help, id=key.id, show=False, priority=key.scope is first)
        for key in TABLE
        if key.scope in scopes
    ]


def without_letters(*scopes: KeyScope) -> list[BindingType]:
    """The bindings of *scopes* but for single letters, for a view in which one types: there a
    letter is text, wherever the focus is."""
    letterless: list[BindingType] = []
    for binding in bindings(*scopes):
        assert isinstance(binding, Binding)
        keys = [key for key in binding.key.split(",") if not (len(key) == 1 and key.isalpha())]
        if keys:
            letterless.append(replace(binding, key=",".join(keys)))
    return letterless


def remapped(keymap: dict[str, str]) -> tuple[Key, ...]:
    """The table with the keys of *keymap* (id to keys) in place of the built-in ones."""
    return tuple(
        Key(key.id, keymap.get(key.id, key.keys), key.action, key.scope, key.help, key.short)
        for key in TABLE
    )


def by_scope(table: Iterable[Key]) -> dict[KeyScope, list[Key]]:
    """The keys grouped by where they work, in table order."""
    groups: dict[KeyScope, list[Key]] = {}
    for key in table:
        groups.setdefault(key.scope, []).append(key)
    return groups


def markdown() -> str:
    """The documentation page of the keys."""
    lines = [
        "# Keys of the terminal UI",
        "",
        "Made from `tui/keys.py` (`python docs/reference/make.py`). A `[keys]` table",
        "in the settings file `divergraph.toml` of the user configuration folder gives an id",
        'other keys, for example `"list.down" = "j,down"`. The folder is shown by `?`.',
    ]
    for scope, keys in by_scope(TABLE).items():
        lines += ["", f"## {scope.value.capitalize()}", "", "| key | does | id |", "|---|---|---|"]
        lines += [f"| `{key.shown}` | {key.help} | `{key.id}` |" for key in keys]
    return "\n".join(lines) + "\n"
