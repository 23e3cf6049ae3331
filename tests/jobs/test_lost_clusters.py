"""A cluster without workers, or whose processes went away, ends the work in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import dask
import distributed  # noqa: F401 - sets its defaults, which a block of settings would take along
import pytest
from cluster_processes import ClusterProcesses, killed
from job_works import Square

from divergraph.jobs import Job, dask_cluster
from divergraph.jobs.dask_cluster import DaskExecutor
from divergraph.outcomes import CLUSTER_TROUBLE, outcome_of_error
from graphstore.errors import ClusterError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.thorough,
]
ITEMS = list(range(400))


@pytest.fixture
def processes(tmp_path, monkeypatch) -> Iterator[ClusterProcesses]:
    monkeypatch.setattr(dask_cluster, "_PATIENCE_SECONDS", 3.0)
    made = ClusterProcesses(tmp_path)
    yield made
    killed(made.scheduler)


def test_a_scheduler_without_workers(processes):
    with pytest.raises(ClusterError, match="no worker has joined") as told:
        DaskExecutor(processes.address)
    assert "dask worker" in told.value.hint
    assert outcome_of_error(told.value) is CLUSTER_TROUBLE


@pytest.mark.exhaustive  # Dask itself asks for ten seconds whether it is there
def test_a_scheduler_that_goes_while_workers_are_waited_for(processes, monkeypatch):
    monkeypatch.setattr(dask_cluster, "_PATIENCE_SECONDS", 60.0)
    threading.Timer(2.0, killed, [processes.scheduler]).start()
    with pytest.raises(ClusterError, match="the scheduler is gone"):
        DaskExecutor(processes.address)


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


def test_workers_that_cannot_start_are_one_sentence(capfd):
    with (
        dask.config.set({"distributed.worker.preload": ["no_such_module"]}),
        pytest.raises(ClusterError, match="cannot be started: No module named 'no_such_module'"),
    ):
        DaskExecutor("local:1")
    assert capfd.readouterr().err == ""
