"""What is said of a job: its state, how far it is, how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping

from divergraph.jobs.background.progress_file import ToldStage
from divergraph.jobs.background.shelf import BackgroundState
from tui.jobs.watched import JobLook

_ENDINGS: Mapping[tuple[str, int], str] = {
    ("compare", 0): "nothing diverged",
    ("compare", 1): "diverged",
    ("analyse", 0): "nothing diverged",
    ("analyse", 1): "diverged",
    ("minimize", 0): "nothing fails",
    ("minimize", 1): "a failing part was found",
    ("minimize", 2): "undecided",
}
_CODES = {
    0: "done",
    1: "diverged",
    2: "this input cannot be used; l shows why",
    3: "trouble on this machine; l shows why",
}
_LOST = "its process was ended from outside; R starts it again"
_STOPPED = "stopped; R goes on with it"


def ending(look: JobLook) -> str:
    """How it ended, in a sentence; empty while it runs."""
    job = look.job
    if job.state is BackgroundState.RUNNING:
        return ""
    if job.state is BackgroundState.LOST:
        return _LOST
    if job.state is BackgroundState.STOPPED:
        return _STOPPED
    code = -1 if job.exit_code is None else job.exit_code
    if look.told.failed:
        return look.told.failed
    if look.command in ("submodel", "minimize") and look.told.found:
        return look.told.found
    text = _ENDINGS.get((look.command, code)) or _CODES.get(code)
    return text or f"ended with exit code {code}; l shows why"


def stage_text(stage: ToldStage) -> str:
    """A stage and how far it is: ``comparing tensors 361/612``."""
    if stage.total:
        return f"{stage.text} {stage.done}/{stage.total}"
    return f"{stage.text} {stage.done}" if stage.done else stage.text


def now(look: JobLook) -> str:
    """What a running job does now."""
    if look.told.stages:
        return stage_text(look.told.stages[-1])
    return "waiting for its turn" if look.waits else "starting"


def in_title(looks: list[JobLook]) -> str:
    """The running jobs for the title line; empty if none runs."""
    if not looks:
        return ""
    text = f"{looks[-1].command}: {now(looks[-1])}"
    return text if len(looks) == 1 else f"{len(looks)} jobs, {text}"


def clock(seconds: float) -> str:
    """A duration: ``0.8 s``, ``41 s``, ``2:05``, ``1:02:05``."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def moment(seconds: float) -> str:
    """A time of day in the user's zone."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def time_left(stage: ToldStage) -> float | None:
    """Seconds a stage still takes if it goes on as it went; None if that cannot be told, as before
    a tenth of it is done: the first items are seldom like the rest."""
    share, spent = stage.share, stage.last - stage.began
    if share is None or not 0.1 <= share < 1 or spent < 1:
        return None
    return spent / share - spent
