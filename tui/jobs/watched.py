"""The jobs of one store as the screens show them; every method of those that watch them blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from divergraph.jobs.background.progress_file import ProgressReader, ToldProgress
from divergraph.jobs.background.shelf import BackgroundJob, BackgroundState, JobShelf


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job and what it told by now; of one that a server runs ``place`` says for whom."""

    job: BackgroundJob
    told: ToldProgress
    place: str = ""
    waits: bool = False

    @property
    def runs(self) -> bool:
        """Whether it is under way."""
        return self.job.state is BackgroundState.RUNNING

    @property
    def command(self) -> str:
        """The name of its command."""
        return self.job.words[0] if self.job.words else ""

    @property
    def target(self) -> tuple[str, str]:
        """The run or graph it made, or was about: its name and kind; empty if none."""
        if self.told.kept:
            return self.told.kept[0], "graph" if self.command == "import" else "run"
        about = self.job.words[1:2]
        if self.command in _ABOUT_A_RUN and about and not about[0].startswith("-"):
            return about[0], "run"
        return "", ""

    @property
    def written(self) -> tuple[str, ...]:
        """The runs and graphs it has written, or written anew, once it has ended."""
        about = self.target[0] if self.command in _CHANGES_A_RUN else ""
        return (*self.told.kept, *([about] if about else []))


_CHANGES_A_RUN = ("analyse", "minimize", "blame")
_ABOUT_A_RUN = (*_CHANGES_A_RUN, "report", "submodel", "export")


@dataclass(frozen=True, slots=True)
class JobsElsewhere:
    """What a server runs: by command, the options it ``takes``, as its addresses call them. Paths
    begin with one of its ``roots``; or it reads ``anywhere`` on its machine."""

    takes: Mapping[str, Collection[str]]
    roots: tuple[str, ...]
    anywhere: bool


class WatchedJobs:
    """Starts, finds and stops the jobs of the store *key*, whoever started them."""

    elsewhere: JobsElsewhere | None = None
    """What there is to know of the server that runs them, if one does."""
    trouble = ""
    """Why they cannot be looked at now."""

    def __init__(self, shelf: JobShelf, key: str) -> None:
        self._shelf, self._key = shelf, key
        self._readers: dict[str, ProgressReader] = {}

    def look(self) -> tuple[JobLook, ...]:
        """All of them as they are now, newest first."""
        looks = []
        readers = self._readers
        self._readers = {}
        for job in self._shelf.jobs(self._key):
            reader = readers.get(job.id) or ProgressReader(job.progress_path)
            self._readers[job.id] = reader
            looks.append(JobLook(job, reader.look()))
        return tuple(looks)

    def start(self, words: Sequence[str]) -> str:
        """Start a command; the id of its job."""
        return self._shelf.start(words, self._key).id

    def go_on(self, job: BackgroundJob) -> None:
        """Start it once more."""
        self._shelf.go_on(job)

    def stop(self, job: BackgroundJob) -> None:
        """Stop it, and wait for its end."""
        self._shelf.stop(job)

    def clear(self, job: BackgroundJob) -> None:
        """Take it off the list."""
        self._shelf.clear(job)

    def fetch(self, job: BackgroundJob, folder: Path) -> Path:
        """Bring what it wrote into *folder*, if it does not lie there; where it is then."""
        return folder

    def close(self) -> None:
        """Look no more."""

    def log(self, job: BackgroundJob) -> str:
        """What it printed."""
        return self._shelf.log(job)
