"""What takes a while in the view of parts: the export, the search for the minimal part.

Both are jobs, processes of their own, that this view starts and follows in its status line.
"""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import work
from textual.content import Content

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.jobs.job_words import ending, now
from tui.jobs.watched import JobLook
from tui.part_chooser import Answer, PartChooser
from tui.render import part_text, probe_text
from tui.render.part_marks import Marks
from tui.screens.job_forms import JobStarter
from tui.screens.windows.export_form import ExportForm, ExportRequest
from tui.style import theme
from tui.widgets.lines import KeyLine, StatusLine

if TYPE_CHECKING:
    from divergraph.api.answers import Selection, Suggestion

_EXPORT, _SEARCH = "submodel", "minimize"
_WRITTEN = (0, 1)
"""Exit codes of an export that wrote the part; with 1 its check found other outputs."""
_BUSY = {
    _EXPORT: "an export is under way; esc stops it",
    _SEARCH: "a search is under way; esc stops it",
}


class PartJobs(JobStarter):
    """A view with a chosen part; one job about it at a time, told in its status line."""

    def __init__(self) -> None:
        super().__init__()
        self._chooser: PartChooser | None = None
        self._answer = Answer(Marks())
        self._busy = ""
        self._followed: JobLook | None = None
        self._is_starting = False
        self._fetched_to: Path | None = None
        self._search: dict[str, Any] = {}
        self._search_is_new = False

    def on_mount(self) -> None:
        """Follow the jobs about this run, whoever started them."""
        super().on_mount()
        self.watch(self.owner, "looks", self._follow)

    def why_no_part(self, key_id: str, here: str) -> str | None:
        """Why a key about the part does nothing at present, the cursor on the op *here*."""
        if self._chooser is None:
            return "still loading"
        marks, history = self.owner.session.marks.now, self.owner.session.marks
        if key_id == "part.unmark":
            marked = here in (*marks.starts, *marks.ends)
            return None if marked else "this op has no mark"
        if key_id == "part.undo":
            return None if history.before else "no mark was changed yet"
        of_the_part = {"part.accept", "part.smallest", "part.export"}
        if key_id in of_the_part and self._answer.marks != marks:
            return "the part is still being found"
        if key_id == "part.side" and self._chooser.alone:
            return "an imported graph has no other side"
        if key_id == "part.accept":
            return None if self._answer.offer is not None else "nothing else is offered"
        return self.why_no_job(key_id)

    def why_no_job(self, key_id: str) -> str | None:
        """Why a key that starts a job does nothing at present."""
        if self._chooser is None:
            return "still loading"
        if key_id == "part.tried":
            return None if self._search else "A searches first"
        if key_id == "part.minimize":
            return self._busy or self._why_not_run(_SEARCH) or None
        if key_id == "part.smallest":
            return self._busy or (None if self._answer.ready else "no part is chosen yet")
        if key_id == "part.export":
            if self._busy:
                return self._busy
            if not self._answer.ready and not self._answer.lacks_a_dump:
                return "no part is chosen that may be cut"
            return self._why_not_run(_EXPORT) or self._chooser.why_no_export or None
        return None

    def _why_not_run(self, command: str) -> str:
        """Why a job cannot be asked for; a server has the files of its runs."""
        elsewhere = self.owner.watched.elsewhere
        if elsewhere is None:
            return "still loading" if self._chooser is None else self._chooser.why_no_files
        return "" if command in elsewhere.takes else f"the server does not run {command}"

    @property
    def alone(self) -> bool:
        """Whether parts are chosen of an imported graph, without a run."""
        return self.owner.session.kind == "graph"

    def why_no_data(self) -> str:
        """Why nothing is said about data; empty if it is."""
        if self._chooser is None or not self._chooser.opened:
            return "opening models and dumps"
        why = self._chooser.structure_only
        return f"structure only: {why}" if why else ""

    def action_export(self) -> None:
        """Ask where to write the part."""
        if not self.allowed("part.export") or self._chooser is None:
            return
        part, settings, chooser = self._answer.selection, self.owner.settings, self._chooser
        if self.alone and part is not None:
            starts, ends = shlex.join(part.starts), shlex.join(part.ends)
            texts = {"starts": starts, "ends": ends, "output": str(settings.export_dir)}
            self.open_form(_EXPORT, {"run": self.owner.session.target, **texts})
            return
        notes = () if part is None else part.notes
        notes_texts = [note for note in (chooser.other_model, *notes) if note]
        form = ExportForm(settings.glyphs, settings.export_dir, chooser.form, notes_texts)
        self.app.push_screen(form, self._export)

    def _export(self, wish: ExportRequest | None) -> None:
        part = self._answer.selection
        if wish is not None and part is not None:
            check = ["--check"] if wish.check else []
            folder = wish.folder.absolute()
            is_here = self.owner.watched.elsewhere is None
            self._fetched_to = None if is_here else folder
            where = ["-o", str(folder)] if is_here else []
            self._start(_EXPORT, *marked(part), *where, *check)

    def action_minimize(self) -> None:
        """Search the smallest part that still fails."""
        if self.allowed("part.minimize"):
            if self.alone:
                self.open_form(_SEARCH, {"run": self.owner.session.target})
            else:
                self._start(_SEARCH)

    def _filled_in(self, words: tuple[str, ...] | None) -> None:
        """Start what a form gave: of a graph, it says what the model is run on."""
        if words is not None:
            is_here = self.owner.watched.elsewhere is None
            self._fetched_to = None if is_here else self.owner.settings.export_dir.absolute()
            self._begin(_BUSY[words[0]], "starting")
            self._is_starting = True
            self.owner.start_job(words, here=True)

    def _start(self, command: str, *words: str) -> None:
        session = self.owner.session
        self._begin(_BUSY[command], "starting")
        self._is_starting = True
        line = [command, session.target, *words, "--store", session.url]
        self.owner.start_job(line, here=True)

    def _about_this_run(self) -> JobLook | None:
        """The newest job about a part of the run."""
        run = self.owner.session.target
        looks = (look for look in self.owner.looks if look.command in _BUSY)
        return next((look for look in looks if look.target[0] == run), None)

    def _follow(self) -> None:
        """Tell how far a job about the run is, and how it ended."""
        before, look = self._followed, self._about_this_run()
        self._followed = look
        if look is None:
            return
        if before is not None and before.target == look.target:
            is_new = before.runs or look.job.asked > before.job.asked
        else:
            is_new = self._is_starting
        if look.runs:
            self._is_starting = False
            self._begin(_BUSY[look.command], now(look))
        elif is_new:
            self._is_starting = False
            self._search_is_new = look.command == _SEARCH
            good = look.job.exit_code == 0 or (look.command == _SEARCH and look.job.exit_code == 1)
            glyphs = self.owner.settings.glyphs
            self._end(f"{glyphs.good if good else glyphs.bad} {ending(look)}", good=good)
            if look.command == _EXPORT and look.job.exit_code in _WRITTEN and self._fetched_to:
                self._begin(_BUSY[_EXPORT], "fetching the part")
                self._fetch(look, self._fetched_to)

    # it goes on while the user looks elsewhere
    @work(thread=True, group="part-fetch", exit_on_error=False, description="fetch")
    def _fetch(self, look: JobLook, folder: Path) -> None:
        try:
            text, good = f"written to {self.owner.watched.fetch(look.job, folder)}", True
        except (DivergraphError, OSError, zipfile.BadZipFile) as error:
            text, good = f"not fetched: {error}", False
        self.call_later(self._fetched, text, good=good)

    def _fetched(self, text: str, *, good: bool) -> None:
        """What a server wrote is here, or why not."""
        glyphs = self.owner.settings.glyphs
        text = f"{glyphs.good if good else glyphs.bad} {text}"
        self._end(text, good=good)
        self.notify(text, severity="information" if good else "error", timeout=10)

    def job_not_started(self) -> None:
        """There is nothing to follow."""
        if self._is_starting:
            self._is_starting = False
            self._end(f"{self.owner.settings.glyphs.bad} not started", good=False)

    def follow_the_run(self) -> None:
        """Follow what is about the run on screen; another one may have been there before."""
        self._search = {}
        if self._followed is None or self._followed.target[0] != self.owner.session.target:
            self._followed, self._busy, self._is_starting = None, "", False
            self._search_is_new = False
        self._follow()

    def action_smallest(self) -> None:
        """Start the part where the fewest bytes go in."""
        part, chooser = self._answer.selection, self._chooser
        if self.allowed("part.smallest") and chooser is not None and part is not None:
            self._begin("a cut is being searched", "searching where the fewest bytes go in")
            self.ask(
                "part-cut",
                lambda: chooser.smallest(part),
                lambda suggestion: self._grown(suggestion, chooser),
            )

    def _grown(self, suggestion: Suggestion | None, chooser: PartChooser) -> None:
        """Mark the part with fewer bytes going in, if there is one."""
        glyphs = self.owner.settings.glyphs
        if suggestion is None:
            text = f"{glyphs.good} nowhere near do fewer bytes go in"
        else:
            before, after = (
                part_text.size_text(suggestion.before),
                part_text.size_text(suggestion.after),
            )
            text = f"{glyphs.good} {after} go in, not {before}; u goes back"
        self._end(text, good=True)
        self.notify(text, timeout=10)
        if suggestion is not None and chooser is self._chooser and self.is_current:
            part = suggestion.selection
            self._mark(chooser, part.starts, part.ends)

    def show_search(self, search: dict[str, Any] | None) -> None:
        """Know what the last search found (None: not asked); mark and show it if it just ended."""
        if search is None:
            return
        is_new, self._search_is_new, self._search = self._search_is_new, False, search
        if not is_new or not search or self._chooser is None or not self.is_current:
            return  # or the user went on to something else
        if search["parts"]:
            first = search["parts"][0]
            self._mark(self._chooser, first["starts"], first["ends"])
        self.action_tried()

    def _mark(self, chooser: PartChooser, starts: Sequence[str], ends: Sequence[str]) -> None:
        history = self.owner.session.marks
        history.set(chooser.marked_on(history.now.side, starts, ends))
        self.show_marks(next(iter(history.now.starts), ""))

    def show_marks(self, goal: str = "") -> None:
        """Show the marks as they are now, the cursor on *goal*."""
        raise NotImplementedError

    def action_tried(self) -> None:
        """Show what the last search tried."""
        if self.allowed("part.tried"):
            search, glyphs = self._search, self.owner.settings.glyphs
            self.owner.show_text(
                "Minimal failing part", lambda width: probe_text.tried(search, glyphs, width)
            )

    def action_close(self) -> None:
        """Stop the job about the part, else restore a maximised pane."""
        look = self._about_this_run()
        if look is not None and look.runs:
            self._say("stopping")
            stop = partial(self.owner.watched.stop, look.job)
            self.ask("part-stop", stop, lambda _: self.owner.look_at_jobs())
        else:
            super().action_close()

    def _begin(self, busy: str, text: str) -> None:
        self._busy = busy
        self._say(text)
        self.query_one(KeyLine).draw()

    def _say(self, text: str) -> None:
        content = Content.styled(f" {printable(text)} ...", theme.LINKED)
        self.query_one("#status", StatusLine).show(content.truncate)

    def _end(self, text: str, *, good: bool) -> None:
        self._busy = ""
        content = Content.styled(f" {printable(text)}", theme.LINKED if good else theme.ERROR)
        self.query_one("#status", StatusLine).show(content.truncate)
        self.query_one(KeyLine).draw()


def marked(part: Selection) -> list[str]:
    """The options of the shell command that give the same part."""
    words = [word for op in part.starts for word in ("--start", op)]
    return words + [word for op in part.ends for word in ("--end", op)]
