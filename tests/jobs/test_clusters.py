"""Work on a real Dask cluster of several processes gives what one process gives."""

from __future__ import annotations

import gc
import os
import signal

import numpy as np
import pytest
from job_works import KillsAt, Square

from divergraph.cli.main import run
from divergraph.jobs import Job, JobCancelledError, dask_cluster
from divergraph.jobs.dask_cluster import DaskExecutor
from graphstore.errors import ClusterError, InputError

# Sockets and loops that a killed worker leaves to the garbage collector.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    executor = _two_processes()
    yield executor
    executor.close()


def _two_processes() -> DaskExecutor:
    try:
        return DaskExecutor("local:2")
    except ClusterError:  # Dask waits ten seconds for its own thread: other tests may take them
        gc.collect()  # what is left of it warns now, where warnings of Dask are expected
        return DaskExecutor("local:2")


def job(items, work, executor, **options):
    return Job(items, work, [1] * len(items), executor=executor, **options)


def test_a_cluster_gives_the_same_results(cluster):
    assert cluster.workers == 2
    items = list(range(300))
    assert job(items, Square(), cluster).run() == [item * item for item in items]


def test_a_worker_killed_in_the_middle_costs_nothing(cluster):
    pids = list(cluster._client.run(os.getpid).values())
    killed = []

    def watch(progress, done):
        if not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    items = list(range(60))
    found = job(items, Square(seconds=0.02), cluster, watch=watch).run()
    assert found == [item * item for item in items]
    assert killed


def test_items_that_kill_their_worker_are_lost_alone(cluster):
    items = list(range(12))
    found = job(items, KillsAt(frozenset({5})), cluster).run()
    assert found == [-5 if item == 5 else item * item for item in items]


def test_a_job_on_a_cluster_can_be_stopped(cluster):
    stopped = job(list(range(400)), Square(seconds=0.01), cluster)
    stopped._watch = lambda progress, done: stopped.cancel()
    with pytest.raises(JobCancelledError):
        stopped.run()


def test_processes_that_do_not_start_leave_our_environment_as_it_was(monkeypatch):
    import distributed

    def too_late(**options):
        raise AssertionError

    monkeypatch.setattr(distributed, "LocalCluster", too_late)
    before = dict(os.environ)
    with pytest.raises(ClusterError, match="cannot be started: AssertionError"):
        DaskExecutor("local:2")
    assert dict(os.environ) == before


def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="no scheduler answers"):
        DaskExecutor("tcp://127.0.0.1:1")


def test_tls_without_a_certificate_is_said():
    with pytest.raises(InputError, match="TLS") as told:
        DaskExecutor("tls://127.0.0.1:8786")
    assert "clusters.md" in told.value.hint


def test_diff_prints_the_same_on_a_cluster(cluster, tmp_path, capsys):
    rng = np.random.default_rng(1)
    for side in ("device", "golden"):
        (tmp_path / side).mkdir()
    for number in range(30):
        values = rng.normal(size=1000).astype(np.float32)
        np.save(tmp_path / "golden" / f"op{number}.npy", values)
        np.save(tmp_path / "device" / f"op{number}.npy", values.astype(np.float16))
    (tmp_path / "device" / "op7.npy").write_bytes(b"damaged")
    printed = []
    address = cluster._client.scheduler_info()["address"]
    for workers in (["--jobs", "1"], ["--cluster", address]):
        folders = [str(tmp_path / "device"), str(tmp_path / "golden")]
        assert run(["diff", *folders, "--json", *workers]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert '"unreadable_dump"' in printed[0]
