"""A Dask cluster of processes that a test can kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path


class ClusterProcesses:
    """A scheduler and its workers, each a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scheduler = self.started("scheduler", "--port", "0", "--no-dashboard")
        self.address = self.said("scheduler", r"Scheduler at: +(tcp://\S+)")

    def started(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        works = os.pathsep.join(path for path in sys.path if path)
        with (self.folder / f"{kind}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments],
                env={**os.environ, "PYTHONPATH": works},
                cwd=self.folder,
                stderr=log,
                start_new_session=True,
            )

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        """A worker that has joined."""
        given = ("--nthreads", "1", "--no-dashboard", *options)
        found = self.started("worker", self.address, *given)
        self.said("worker", r"(Registered to): ")
        return found

    def said(self, kind: str, pattern: str) -> str:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if found := re.search(pattern, (self.folder / f"{kind}.log").read_text()):
                return found[1]
            time.sleep(0.1)
        raise AssertionError((self.folder / f"{kind}.log").read_text())


def killed(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
