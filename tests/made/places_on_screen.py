"""Every view and every window of the terminal app, and the keys that lead there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from layered_run import analysed_run, made_run
from textual.screen import Screen

from graphstore.open_store import open_store
from tui.screens.edges import EdgeOverlay
from tui.screens.windows.answer import AnswerOverlay
from tui.screens.windows.changes import ChangesOverlay
from tui.screens.windows.choose_command import ChooseCommandOverlay
from tui.screens.windows.export_form import ExportForm
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.leave import LeaveOverlay
from tui.screens.windows.line_form import LineForm
from tui.screens.windows.neighbourhood import NeighbourhoodOverlay
from tui.screens.windows.overlays import LogOverlay, TextOverlay, YankOverlay
from tui.screens.windows.why import WhyOverlay


@dataclass(frozen=True)
class Place:
    """The keys, what is on screen after them, and the store and the run they are pressed on."""

    keys: tuple[str, ...]
    kind: type[Screen] = Screen
    store: str = "two_runs"
    run: str = "15"


PART = ("2", "f", "b", "5", "j", "j", "j", "B")
VIEWS = {
    "overview": Place(()),
    "ops": Place(("2", "f")),
    "lineage": Place(("3", "u")),
    "propagation": Place(("4",)),
    "submodel": Place(PART, store="fused_store", run="14"),
    "tensor": Place(("6",), store="valued_store", run="values"),
    "tensor over two axes": Place(("6", *"aaaa"), store="valued_store", run="values"),
    "query": Place(("7",)),
    "runs": Place(("0",)),
    "no such run": Place((), run="nobody"),
}
WINDOWS = {
    "help": Place(("2", "question_mark"), TextOverlay),
    "words": Place(("2", "f1"), TextOverlay),
    "details": Place(("2", "f", "enter"), TextOverlay),
    "why": Place(("W",), WhyOverlay),
    "copy": Place(("2", "f", "y"), YankOverlay),
    "consumers": Place(("2", "f", "less_than_sign", "greater_than_sign"), EdgeOverlay),
    "around": Place(("2", "f", "L"), NeighbourhoodOverlay),
    "export": Place(("5", "b", "B", "x"), ExportForm, "whole_store", "whole"),
    "two runs": Place(("0", "space", "j", "space", "C"), ChangesOverlay),
    "another store": Place(("0", "O"), LineForm),
    "rename": Place(("0", "R"), LineForm),
    "delete": Place(("0", "D"), LineForm),
    "keep a query": Place(("2", "Q", "i", "ctrl+s"), LineForm),
    "log": Place(("2", "at"), LogOverlay),
    "answer": Place(("colon", *"Ask:", "space", *"model", "enter", "f5"), AnswerOverlay),
}
JOB_VIEWS = {"jobs": Place(("8",)), "first screen": Place(())}
JOB_WINDOWS = {
    "start": Place(("8", "n"), ChooseCommandOverlay),
    "form": Place(("n",), JobFormWindow),
    "a job's log": Place(("8", "l"), TextOverlay),
    "leave": Place(("8", "q"), LeaveOverlay),
}


def kept_two_runs(folder: Path) -> str:
    """A store with the analysed run ``15``, and the run ``14`` of the same models."""
    url = str(folder / "two")
    with open_store(url) as store:
        store.save_run(made_run())
        store.save_run(analysed_run())
    return url
