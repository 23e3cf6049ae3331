"""Jobs as the rows of a list, and one job as text."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from divergraph.jobs.background.progress_file import ToldStage
from divergraph.jobs.background.shelf import BackgroundState
from divergraph.text.printable import printable
from tui.jobs.job_words import clock, ending, moment, now, time_left
from tui.jobs.watched import JobLook
from tui.render.hanging import hung
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

_BAR, _WIDEST = 16, 46
"""Cells of a bar, and of the text beside it."""


@dataclass(frozen=True, slots=True)
class Face:
    """How a job looks: its mark, the word for its state, their style."""

    mark: str
    word: str
    style: str


def face(look: JobLook, glyphs: Glyphs) -> Face:
    """How a job looks at present."""
    state, code = look.job.state, look.job.exit_code
    if state is BackgroundState.RUNNING:
        return Face(glyphs.running, "waits" if look.waits else "running", "linked")
    if state is BackgroundState.STOPPED:
        return Face(glyphs.dash, "stopped", "quiet")
    if state is BackgroundState.LOST:
        return Face(glyphs.broken, "lost", "alarm")
    if code == 0 or (code == 1 and look.command in ("compare", "analyse", "minimize")):
        return Face(glyphs.good, "done", "clean")
    return Face(glyphs.bad, "failed", "alarm")


def ending_style(look: JobLook, mark: Face) -> str:
    """The style of the sentence: what a comparison found may be bad though the job went well."""
    differs = look.job.exit_code == 1 and mark.style == "clean"
    return "origin" if differs else mark.style


COLUMNS = (
    ListColumn("job", "state", 9, sortable=False),
    ListColumn("command", "command", 8, sortable=False),
    ListColumn("what", "what", 10, sortable=False),
    ListColumn("began", "began", 8, sortable=False, priority=2),
    ListColumn("took", "took", 7, align="right", sortable=False, priority=1),
    ListColumn("said", "how far, how it ended", 20, sortable=False),
)


def job_row(look: JobLook, glyphs: Glyphs, at: float) -> tuple[Cell, ...]:
    """The cells of one job at the time *at*."""
    look_face = face(look, glyphs)
    return (
        Cell(f"{look_face.mark} {look_face.word}", look_face.style),
        Cell(look.command),
        Cell(look.target[0] or _what(look)),
        Cell(moment(_began(look)), "quiet"),
        Cell(clock(_ended(look, at) - _began(look)), "quiet"),
        Cell(now(look)) if look.runs else Cell(ending(look), ending_style(look, look_face)),
    )


def _what(look: JobLook) -> str:
    """What it is about, where no run is known yet: its name to be, or the first file given."""
    words = look.job.words[1:]
    if "--store" in words:  # stands last
        words = words[: words.index("--store")]
    for option in ("--run", "--name"):
        if option in words[:-1]:
            return words[words.index(option) + 1]
    first = next((word for word in words if not word.startswith("-")), "")
    return first.rstrip("/").rpartition("/")[2]


def _began(look: JobLook) -> float:
    return look.told.began or look.job.asked


def _ended(look: JobLook, at: float) -> float:
    if look.runs:
        return at
    stages = look.told.stages
    return look.job.ended or (stages[-1].last if stages else _began(look))


def progress_text(look: JobLook | None, glyphs: Glyphs, width: int, at: float) -> Content:
    """The stages of a job, how long each took, and the command line."""
    if look is None:
        return Content.styled("n starts one", theme.QUIET)
    lines: list[Content] = []
    if look.told.attempt > 1:  # above what a long command and folder push out of sight
        lines.append(Content.styled(f"attempt {look.told.attempt}", theme.QUIET))
    stages = look.told.stages
    for number, stage in enumerate(stages):
        last = number == len(stages) - 1
        until = _ended(look, at) if last else stages[number + 1].began
        if last and look.runs:
            lines += _running(stage, glyphs, width, until)
            if look.told.found:
                lines += hung("  ", f"so far: {look.told.found}", width, "", "")
        else:
            lines.append(_done(stage, look, glyphs, width, until, last=last))
    if look.runs and not stages:
        lines.append(Content.styled(f"{glyphs.running} {now(look)}", theme.LINKED))
    if not look.runs:
        look_face = face(look, glyphs)
        style = _CELL_STYLES.get(ending_style(look, look_face), "")
        mark = glyphs.feeds if look_face.style == "clean" else look_face.mark
        lines += hung(f"{mark} ", ending(look), width, style, style)
    command = shlex.join(["divergraph", *look.job.words])
    lines += [Content(""), *hung("$ ", command, width, theme.QUIET, theme.QUIET)]
    where = look.place or f"in {look.job.directory}"
    lines += hung("  ", where, width, theme.QUIET, theme.QUIET)
    return Content("\n").join(lines)


_CELL_STYLES: Mapping[str, str] = {
    "clean": "$state-clean",
    "origin": "$state-origin bold",
    "alarm": "$state-alarm bold",
    "quiet": theme.QUIET,
}


def _done(
    stage: ToldStage, look: JobLook, glyphs: Glyphs, width: int, until: float, *, last: bool
) -> Content:
    """A stage that is over; the last one of a job that was cut off has no tick."""
    cut_off = last and look.job.exit_code not in (0, 1)
    mark, style = (glyphs.dash, theme.QUIET) if cut_off else (glyphs.good, "$state-clean")
    figure = f"{wording.thousands(stage.done)}" if stage.done else ""
    if cut_off and stage.total:
        figure = f"{figure or 0} of {wording.thousands(stage.total)}"
    took = f"{figure:>12}  {clock(until - stage.began):>7}"
    room = min(_WIDEST, max(8, width - width_of(took) - 4))
    text = fit(printable(stage.text), room, glyphs.ellipsis)
    return Content.assemble((f"{mark} ", style), text, (f"  {took}", theme.QUIET))


def _running(stage: ToldStage, glyphs: Glyphs, width: int, at: float) -> list[Content]:
    share, seconds = stage.share, time_left(stage)
    head = Content.styled(
        cut_to(f"{glyphs.running} {printable(stage.text)}", width, glyphs.ellipsis), theme.LINKED
    )
    done, note = wording.thousands(stage.done), printable(stage.note)
    parts = [
        f"{done} of {wording.thousands(stage.total)}"
        if stage.total
        else done
        if stage.done
        else "",
        f"{100 * share:.0f} %" if share is not None else "",
        f"about {clock(seconds)} left" if seconds is not None else "",
        clock(at - stage.began),
        note,
    ]
    figures = f" {glyphs.separator} ".join(part for part in parts if part)
    if share is None:
        return [head, Content.styled(cut_to(f"  {figures}", width, glyphs.ellipsis), theme.QUIET)]
    bar = bar_of(share, min(_BAR * 2, max(_BAR // 2, width - width_of(figures) - 4)), glyphs)
    rest = cut_to(f"  {figures}", max(0, width - width_of(bar) - 2), glyphs.ellipsis)
    return [head, Content.assemble("  ", (bar, theme.LINKED), (rest, theme.QUIET))]


def bar_of(share: float, cells: int, glyphs: Glyphs) -> str:
    """A bar of *cells*, filled as far as *share* says."""
    filled = int(share * cells)
    full, empty = glyphs.rung, glyphs.clean
    return full * filled + empty * (cells - filled)


def problems_text(look: JobLook | None, glyphs: Glyphs, width: int) -> Content:
    """What was told while it runs, newest last."""
    if look is None or not look.told.problems:
        return Content.styled("none", theme.QUIET)
    lines: list[Content] = []
    for at, text in look.told.problems:
        lines += hung(f"{glyphs.separator} {moment(at)}  ", text, width, theme.QUIET)
    if look.told.more_problems:
        more = wording.count(look.told.more_problems, "more problem")
        lines.append(Content.styled(f"  and {more}; l shows the log", theme.QUIET))
    return Content("\n").join(lines)


def present() -> float:
    """The time now, in seconds since 1970."""
    return time.time()
