"""What takes a while in the view of parts: the export, the search for the minimal part."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.message import Message

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.owner import PartJob
from tui.part_chooser import Answer, PartChooser
from tui.render import part_text, probe_text
from tui.render.part_marks import Marks
from tui.screens.base import ViewScreen
from tui.screens.windows.export_form import ExportForm, ExportRequest
from tui.stages import Stages
from tui.style import theme
from tui.widgets.lines import KeyLine, StatusLine

if TYPE_CHECKING:
    from divergraph.api.answers import Minimized, PartCheck, Selection, Suggestion


class PartJobs(ViewScreen):
    """A view with a chosen part; one job at a time, told in its status line."""

    class Stage(Message):
        """What the job does now."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

        def can_replace(self, message: Message) -> bool:
            """True for an older one."""
            return isinstance(message, PartJobs.Stage)

    class Written(Message):
        """The part is in *path*."""

        def __init__(self, path: Path, check: PartCheck | None) -> None:
            super().__init__()
            self.path, self.check = path, check

    class Minimal(Message):
        """What the search for the minimal failing part gave; ``lost`` says why it is not kept
        with the run, if so."""

        def __init__(self, result: Minimized, chooser: PartChooser, lost: str) -> None:
            super().__init__()
            self.result, self.chooser, self.lost = result, chooser, lost

    class Grown(Message):
        """A part with fewer bytes going in, or None."""

        def __init__(self, found: Suggestion | None, chooser: PartChooser) -> None:
            super().__init__()
            self.found, self.chooser = found, chooser

    class NotDone(Message):
        """A job could not be done."""

        def __init__(self, what: str, error: DivergraphError) -> None:
            super().__init__()
            self.what, self.error = what, error

    def __init__(self) -> None:
        super().__init__()
        self._chooser: PartChooser | None = None
        self._answer = Answer(Marks())
        self._busy, self._began = "", 0.0
        self._stages = Stages(self._tell)
        self._tried: Minimized | None = None

    def _tell(self, text: str) -> None:
        self.post_message(self.Stage(text))

    def why_no_job(self, key_id: str) -> str | None:
        """Why a key that starts a job does nothing at present."""
        if self._chooser is None:
            return "still loading"
        if key_id == "part.tried":
            return None if self._tried is not None else "A searches first"
        if key_id == "part.minimize":
            return self._busy or self._chooser.why_no_search or None
        if key_id == "part.smallest":
            return self._busy or (None if self._answer.ready else "no part is chosen yet")
        if key_id == "part.export":
            if self._busy:
                return self._busy
            if not self._answer.ready:
                return "no part is chosen that may be cut"
            return self._chooser.why_no_export or None
        return None

    def action_export(self) -> None:
        """Ask where to write the part."""
        if not self.allowed("part.export") or self._chooser is None:
            return
        part, settings, chooser = self._answer.selection, self.owner.settings, self._chooser
        notes = () if part is None else part.notes
        told = [note for note in (chooser.other_model, *notes) if note]
        form = ExportForm(settings.glyphs, settings.export_dir, chooser.form, told)
        self.app.push_screen(form, self._export)

    def _export(self, wish: ExportRequest | None) -> None:
        part, chooser = self._answer.selection, self._chooser
        if wish is None or part is None or chooser is None:
            return
        self._begin("an export is under way", "writing the part")
        words = [*marked(part), "-o", str(wish.folder), *(["--check"] if wish.check else [])]
        self.owner.session.note("submodel", self.owner.session.target, *words)
        self._write(chooser, part, wish)

    @work(thread=True, exclusive=True, group="part-job", exit_on_error=False, description="job")
    def _write(self, chooser: PartChooser, part: Selection, wish: ExportRequest) -> None:
        try:
            path, check = chooser.write(part, wish.folder, check=wish.check, progress=self._stages)
        except DivergraphError as error:
            self.post_message(self.NotDone("not written", error))
        else:
            self.post_message(self.Written(path, check))

    @on(Written)
    def _written(self, event: Written) -> None:
        glyphs, check = self.owner.settings.glyphs, event.check
        text = f"written to {event.path}"
        if check is not None:
            last = next(iter(check.lines[-1:]), "")
            how = {True: "it gives the golden outputs", False: f"it gives other outputs: {last}"}
            said = f"it could not be run: {last}" if check.passed is None else how[check.passed]
            text += f"; run again, {said}"
        good = check is None or check.passed is not False
        self._end(f"{glyphs.good if good else glyphs.bad} {text}", good=good)

    def action_smallest(self) -> None:
        """Start the part where the fewest bytes go in."""
        part = self._answer.selection
        if self.allowed("part.smallest") and self._chooser is not None and part is not None:
            self._begin("a cut is being searched", "searching where the fewest bytes go in")
            self._cut(self._chooser, part)

    @work(thread=True, exclusive=True, group="part-job", exit_on_error=False, description="job")
    def _cut(self, chooser: PartChooser, part: Selection) -> None:
        self.post_message(self.Grown(chooser.smallest(part), chooser))

    @on(Grown)
    def _grown(self, event: Grown) -> None:
        found, glyphs = event.found, self.owner.settings.glyphs
        if found is None:
            self._end(f"{glyphs.good} nowhere near do fewer bytes go in", good=True)
            return
        before, after = part_text.size_text(found.before), part_text.size_text(found.after)
        self._end(f"{glyphs.good} {after} go in, not {before}; u goes back", good=True)
        if event.chooser is self._chooser and self.is_current:
            part, history = found.selection, self.owner.session.marks
            history.set(event.chooser.marked_on(history.now.side, part.starts, part.ends))
            self.show_marks(next(iter(history.now.starts), ""))

    def action_minimize(self) -> None:
        """Search the smallest part that still fails."""
        if self.allowed("part.minimize") and self._chooser is not None:
            self._begin("a search is under way; esc stops it", "searching the minimal part")
            self.owner.session.note("minimize", self.owner.session.target)
            self._search(self._chooser)

    @work(thread=True, exclusive=True, group="part-job", exit_on_error=False, description="job")
    def _search(self, chooser: PartChooser) -> None:
        try:
            result = chooser.minimized(self._stages)
        except DivergraphError as error:
            self.post_message(self.NotDone("not searched", error))
        else:
            session, run = self.owner.session, chooser.run
            lost = "" if result.clean else session.keep_search(run, result)
            self.post_message(self.Minimal(result, chooser, lost))

    @on(Minimal)
    def _found(self, event: Minimal) -> None:
        result, glyphs = event.result, self.owner.settings.glyphs
        text, good = probe_text.verdict(result), bool(result.parts)
        text += f"; not kept with the run: {event.lost}" if event.lost else ""
        self._end(f"{glyphs.good if good else glyphs.bad} {text}", good=good)
        if event.chooser is not self._chooser or not self.is_current:
            return  # the user went on to something else
        self._tried = result
        if result.parts:
            first, history = result.parts[0].selection, self.owner.session.marks
            history.set(event.chooser.marked_on(history.now.side, first.starts, first.ends))
            self.show_marks(next(iter(history.now.starts), ""))
        self.action_tried()

    def show_marks(self, goal: str = "") -> None:
        """Show the marks as they are now, the cursor on *goal*."""
        raise NotImplementedError

    def action_tried(self) -> None:
        """Show what the search tried."""
        if self.allowed("part.tried") and self._tried is not None:
            result, glyphs = self._tried, self.owner.settings.glyphs
            self.owner.show_text(
                "Minimal failing part", lambda width: probe_text.tried(result, glyphs, width)
            )

    def action_close(self) -> None:
        """Stop a search, else restore a maximised pane."""
        if self._busy and self._stages.stoppable:
            self._stages.stop()
            self._say("stopping after the last answer")
        else:
            super().action_close()

    @on(NotDone)
    def _not_done(self, event: NotDone) -> None:
        self._end(f"{self.owner.settings.glyphs.bad} {event.what}: {event.error}", good=False)

    @on(Stage)
    def _stage(self, event: Stage) -> None:
        if self._busy:
            self._say(event.text)

    def _begin(self, busy: str, text: str) -> None:
        self._busy, self._stages, self._began = busy, Stages(self._tell), time.time()
        self.owner.leaving = ""
        self._say(text)
        self.query_one(KeyLine).draw()

    def _say(self, text: str) -> None:
        self.owner.job = PartJob(self.owner.session.target, self._busy, text, self._began)
        shown = Content.styled(f" {printable(text)} ...", theme.LINKED)
        self.query_one("#status", StatusLine).show(shown.truncate)

    def _end(self, text: str, *, good: bool) -> None:
        job, self._busy, self.owner.job = self.owner.job, "", None
        if job is not None:
            ended = replace(job, said=text[2:], ended=time.time(), good=good)
            self.owner.part_jobs = (ended, *self.owner.part_jobs)
        shown = Content.styled(f" {printable(text)}", theme.LINKED if good else theme.ERROR)
        self.query_one("#status", StatusLine).show(shown.truncate)
        if good:
            self.notify(text, timeout=10)
        else:
            self.notify(text, severity="error", timeout=10)
        self.query_one(KeyLine).draw()


def marked(part: Selection) -> list[str]:
    """The options of the shell command that give the same part."""
    words = [word for op in part.starts for word in ("--start", op)]
    return words + [word for op in part.ends for word in ("--end", op)]
