"""How far a command is, as JSON lines in a file: written by its process, read by anyone.

Each line is an object with the time ``at`` (seconds since 1970) and one of

- ``attempt``: a process begins, the first (1) or one that goes on with the job;
- ``stage`` and ``total`` (null: not known): a stage of the work begins;
- ``done`` and ``note``: so many steps of the stage are done;
- ``found``: what was found so far, in place of what was told before;
- ``problem``: something the user should know of; the work goes on;
- ``kept``: the name of a run or graph that is in the store now;
- ``failed``: the sentence with which the work ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_SECONDS = 0.2
"""At most so often are steps told."""
_PROBLEMS = 1000
"""Problems a reader keeps; a dump whose every file is damaged has more."""


class ProgressFile:
    """Writes the file at ``path``, behind what is there. It is a ``Progress``."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._done, self._note, self._untold, self._told = 0, "", False, 0.0
        self._found = ""

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins."""
        self.flush()
        self._done, self._note = 0, ""
        self._tell(stage=text, total=total)

    def step(self, amount: int = 1, note: str = "") -> None:
        """*amount* steps are done; told soon, not at once."""
        self._done += amount
        self._note, self._untold = note, True
        if time.monotonic() - self._told >= _SECONDS:
            self.flush()

    def problem(self, text: str) -> None:
        """Something the user should know of; the work goes on."""
        self._tell(problem=text)

    def found(self, text: str) -> None:
        """What was found so far; told with the next step."""
        self._found, self._untold = text, True

    def kept(self, name: str) -> None:
        """A run or graph is in the store now."""
        self._tell(kept=name)

    def failed(self, text: str) -> None:
        """The work ends with this sentence."""
        self._tell(failed=text)

    def attempt(self, number: int) -> None:
        """A process begins."""
        self._tell(attempt=number)

    def flush(self) -> None:
        """Tell the steps that were not told yet."""
        if self._untold:
            self._untold, self._told = False, time.monotonic()
            self._tell(done=self._done, note=self._note)
            if self._found:
                self._tell(found=self._found)
                self._found = ""

    def close(self) -> None:
        """Tell the rest; no more follows."""
        self.flush()
        self._file.close()

    def _tell(self, **entries: object) -> None:
        try:
            self._file.write(json.dumps({"at": round(time.time(), 3), **entries}) + "\n")
        except OSError:  # a full disk: the work itself may need none, and says so if it does
            return


@dataclass(frozen=True, slots=True)
class ToldStage:
    """A stage of the work: when it began, how far it is, when that was told last."""

    text: str
    total: int | None
    began: float
    last: float
    done: int = 0
    note: str = ""

    @property
    def share(self) -> float | None:
        """How much of it is done, up to 1; None where the total is unknown."""
        return min(1.0, self.done / self.total) if self.total else None


@dataclass(frozen=True, slots=True)
class ToldProgress:
    """All that the process of the last attempt told. ``more_problems`` are not in the list."""

    attempt: int = 0
    began: float = 0.0
    stages: tuple[ToldStage, ...] = ()
    problems: tuple[tuple[float, str], ...] = ()
    more_problems: int = 0
    kept: tuple[str, ...] = ()
    failed: str = ""
    found: str = ""


@dataclass
class ProgressReader:
    """Reads such a file as it grows; each call reads what is new."""

    path: Path
    told: ToldProgress = field(default_factory=ToldProgress)
    _read: int = 0

    def look(self) -> ToldProgress:
        """What is told by now; a file that is not there tells nothing."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return self.told
        end = new.rfind(b"\n") + 1  # a line may be half written
        self._read += end
        self.told = told_with(self.told, new[:end].splitlines())
        return self.told


def told_with(progress: ToldProgress, lines: Iterable[bytes | str]) -> ToldProgress:
    """What is known after some more lines of such a file."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            progress = _with(progress, entry)
    return progress


def _with(progress: ToldProgress, entry: dict[str, Any]) -> ToldProgress:
    """What is known after one more line; words that are none of ours change nothing."""
    at = entry.get("at", 0.0)
    match entry:
        case {"attempt": int(number)}:
            return ToldProgress(number, at)
        case {"stage": str(text), "total": int() | None as total}:
            return replace(progress, stages=(*progress.stages, ToldStage(text, total, at, at)))
        case {"done": int(done), "note": str(note)} if progress.stages:
            stage = replace(progress.stages[-1], done=done, note=note, last=at)
            return replace(progress, stages=(*progress.stages[:-1], stage))
        case {"problem": str(text)}:
            if len(progress.problems) >= _PROBLEMS:
                return replace(progress, more_problems=progress.more_problems + 1)
            return replace(progress, problems=(*progress.problems, (at, text)))
        case {"kept": str(name)}:
            return replace(progress, kept=(*progress.kept, name))
        case {"found": str(text)}:
            return replace(progress, found=text)
        case {"failed": str(text)}:
            return replace(progress, failed=text)
    return progress
