"""A cluster without workers, or whose processes went away, ends the work in one sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_works import Square

from divergraph.jobs import Job, dask_cluster
from divergraph.jobs.dask_cluster import DaskExecutor
from divergraph.outcomes import CLUSTER_TROUBLE, outcome_of_error
from graphstore.errors import ClusterError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ITEMS = list(range(400))


class Processes:
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

    def worker(self) -> subprocess.Popen[bytes]:
        """A worker that has joined."""
        found = self.started("worker", self.address, "--nthreads", "1", "--no-dashboard")
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


@pytest.fixture
def processes(tmp_path, monkeypatch) -> Iterator[Processes]:
    monkeypatch.setattr(dask_cluster, "_PATIENCE_SECONDS", 3.0)
    made = Processes(tmp_path)
    yield made
    killed(made.scheduler)


def test_a_scheduler_without_workers(processes):
    with pytest.raises(ClusterError, match="no worker has joined") as told:
        DaskExecutor(processes.address)
    assert "dask worker" in told.value.hint
    assert outcome_of_error(told.value) is CLUSTER_TROUBLE


@pytest.mark.parametrize(
    ("lost", "sentence"), [("worker", "no worker is left"), ("scheduler", "the scheduler is gone")]
)
def test_what_is_lost_in_the_middle_is_named(processes, lost, sentence):
    worker = processes.worker()
    executor = DaskExecutor(processes.address)
    gone = {"worker": worker, "scheduler": processes.scheduler}[lost]
    work = Job(
        ITEMS,
        Square(seconds=0.05),
        [1] * len(ITEMS),
        executor=executor,
        watch=lambda progress, done: killed(gone),
    )
    with pytest.raises(ClusterError, match=sentence):
        work.run()
    executor.close()
    killed(worker)
