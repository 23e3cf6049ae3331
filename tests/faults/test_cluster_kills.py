"""Clients and workers of a Dask cluster killed at random moments: nothing is lost or wrong."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cluster_processes import ClusterProcesses, killed
from job_works import Square

from divergraph.jobs import Job
from divergraph.jobs.dask_cluster import DaskExecutor

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ITEMS = list(range(200))
SQUARES = [item * item for item in ITEMS]
SECONDS = 0.005
"""An item takes so long."""

CLIENT = """
import sys
from pathlib import Path
from divergraph.jobs import Job, Journal
from divergraph.jobs.dask_cluster import DaskExecutor
sys.path.insert(0, sys.argv[1])
from job_works import Square
address, folder, items = sys.argv[2], Path(sys.argv[3]), list(range(int(sys.argv[4])))
executor = DaskExecutor(address)
print("ready", flush=True)
journal = Journal(lambda: "squares", str, str, int, folder=folder / "journal", worth_seconds=0)
work = Square(seconds=float(sys.argv[5]))
job = Job(items, work, [1] * len(items), executor=executor, journal=journal)
print(job.run() == [item * item for item in items], job.progress.resumed)
"""


@pytest.mark.parametrize("kills", [1, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_killed_workers_cost_no_result(tmp_path: Path, kills: int) -> None:
    """One of two dies at any moment of a job; the next job has another one."""
    moments = random.Random(kills)
    cluster = ClusterProcesses(tmp_path)
    workers = [cluster.worker("--no-nanny")]
    try:
        executor = DaskExecutor(cluster.address)
        for _ in range(kills):
            workers.append(cluster.worker("--no-nanny"))
            dies = workers.pop(moments.randrange(2))
            kill = threading.Timer(moments.uniform(0.0, SECONDS * len(ITEMS) / 2), killed, (dies,))
            kill.start()
            work = Square(seconds=SECONDS)
            assert Job(ITEMS, work, [1] * len(ITEMS), executor=executor).run() == SQUARES
            kill.join()
        executor.close()
    finally:
        for process in (*workers, cluster.scheduler):
            killed(process)


@pytest.mark.parametrize("kills", [1, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_a_killed_client_goes_on_with_what_is_done(tmp_path: Path, kills: int) -> None:
    moments = random.Random(kills)
    items = len(ITEMS) * kills  # more than are done before the last kill
    cluster = ClusterProcesses(tmp_path)
    worker = cluster.worker()
    made = Path(__file__).parents[1] / "made"
    command = [sys.executable, "-c", CLIENT, made, cluster.address, tmp_path, items, SECONDS]
    try:
        for left in reversed(range(kills + 1)):
            kept = sum(map(len, map(complete, journal_lines(tmp_path))))
            with subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, text=True
            ) as client:
                assert client.stdout is not None
                assert client.stdout.readline() == "ready\n"
                if left:
                    time.sleep(moments.uniform(0.0, 0.6))
                    client.send_signal(signal.SIGKILL)
                said = client.stdout.read()
        assert said == f"True {kept}\n"
    finally:
        killed(worker)
        killed(cluster.scheduler)


def journal_lines(folder: Path) -> list[str]:
    return [line for path in folder.glob("journal/*") for line in path.read_text().splitlines()]


def complete(line: str) -> dict[str, str]:
    """The results a line tells; none, if the kill cut it."""
    try:
        told: dict[str, str] = json.loads(line)
    except ValueError:
        return {}
    return told
