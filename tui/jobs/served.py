"""The jobs that the server of a store runs, asked over HTTP."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from divergraph.jobs.background.progress_file import ToldProgress, told_with
from divergraph.jobs.background.shelf import BackgroundJob, BackgroundState
from graphstore.errors import DivergraphError, InputError
from graphstore.remote.connection import ServerConnection
from tui.jobs.forms import options_of
from tui.jobs.watched import JobLook, JobsElsewhere, WatchedJobs

_PATIENCE = 10.0
"""Seconds after which a server that says nothing is taken for lost."""
_STATES: Mapping[str, BackgroundState] = {
    "queued": BackgroundState.RUNNING,
    **{state.value: state for state in BackgroundState},
}


class ServedJobs(WatchedJobs):
    """Starts, finds and stops the jobs of the server at *url*. While it cannot be asked, what it
    said last is shown."""

    def __init__(self, url: str) -> None:
        self._url, self._wire = url, ServerConnection(url, seconds=_PATIENCE)
        self._told: dict[str, tuple[int, ToldProgress]] = {}
        self._looks: tuple[JobLook, ...] = ()
        self._asking = threading.Lock()

    def look(self) -> tuple[JobLook, ...]:
        """All of them as they are now, newest first; as they were while another look waits."""
        if self._asking.acquire(blocking=False):
            try:
                self._look()
            except DivergraphError as error:
                self.trouble = str(error)
            finally:
                self._asking.release()
        return self._looks

    def start(self, words: Sequence[str]) -> str:
        """Ask for a command; the id of its job.

        Raises:
            DivergraphError: the server does not run it, or cannot be asked.
        """
        if self.elsewhere is None:
            with self._asking:
                self._look()
        assert self.elsewhere is not None
        request = {"command": words[0], "options": options_of(words, self.elsewhere)}
        answer = self._wire.send("POST", "/v1/jobs", json.dumps(request).encode())
        return str(json.loads(answer)["id"])

    def go_on(self, job: BackgroundJob) -> None:
        """Ask for its command once more; a comparison takes up what was done."""
        self.start(job.words)

    def stop(self, job: BackgroundJob) -> None:
        """Stop it, and wait for its end."""
        self._wire.send("DELETE", f"/v1/jobs/{quote(job.id, safe='')}")

    def clear(self, job: BackgroundJob) -> None:
        """Not from here.

        Raises:
            InputError: always.
        """
        raise InputError("the server keeps its list of jobs itself")

    def fetch(self, job: BackgroundJob, folder: Path) -> Path:
        """Bring the part it wrote into *folder*.

        Raises:
            DivergraphError: the server cannot be asked, or something of its name is there.
            OSError: it cannot be written there.
        """
        wire = ServerConnection(self._url)  # with time to pack it
        try:
            sent = wire.send("GET", f"/v1/jobs/{quote(job.id, safe='')}/part.zip")
        finally:
            wire.close()
        with zipfile.ZipFile(io.BytesIO(sent)) as packed:
            place = folder / packed.namelist()[0].partition("/")[0]
            if place.exists():
                raise InputError("there is something already", where=str(place))
            packed.extractall(folder)
        return place

    def close(self) -> None:
        """Ask no more."""
        self._wire.close()

    def log(self, job: BackgroundJob) -> str:
        """What it printed, or why that cannot be asked."""
        try:
            return str(self._wire.read("job-log", {"name": job.id})["text"])
        except DivergraphError as error:
            return str(error)

    def _look(self) -> None:
        seen = {name: read for name, (read, _) in self._told.items()}
        answer = self._wire.read("jobs", {"seen": seen})
        takes = {name: frozenset(options) for name, options in answer["takes"].items()}
        self.elsewhere = JobsElsewhere(takes, tuple(answer["roots"]), answer["anywhere"])
        before, self._told = self._told, {}
        for job in answer["jobs"]:
            progress = told_with(
                before.get(job["id"], (0, ToldProgress()))[1], job["lines"].split("\n")
            )
            self._told[job["id"]] = job["seen"], progress
        self._looks = tuple(self._look_of(job) for job in answer["jobs"])
        self.trouble = ""

    def _look_of(self, job: Mapping[str, Any]) -> JobLook:
        progress = self._told[job["id"]][1]
        job_here = BackgroundJob(
            folder=Path(job["id"]),
            words=_words(job["words"], job["placed"]),
            store=self._url,
            directory=Path(),
            asked=job["asked"],
            state=_STATES[job["state"]],
            exit_code=job["exit_code"],
            ended=job["ended"],
        )
        place = f"on the server, for {job['owner']}" if job["owner"] else "on the server"
        current = replace(progress, failed=progress.failed or job["error"])
        return JobLook(job_here, current, place, waits=job["state"] == "queued")


def _words(words: Sequence[str], placed: int) -> tuple[str, ...]:
    """The command line of a job as one types it: what has no option behind the command."""
    command, *options = words[: len(words) - placed]
    split = [part for option in options for part in option.split("=", 1)]
    return (command, *words[len(words) - placed :], *split)


def jobs_of(url: str) -> ServedJobs | None:
    """Those of the server at *url*; None if no Divergraph server is there."""
    return ServedJobs(url) if url.partition("://")[0] in ("http", "https") else None
