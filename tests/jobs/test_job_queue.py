"""A queue does one job after the other and never takes its front end down."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from divergraph.dump_diff.diff_dumps import DiffRequest, diff_dumps
from divergraph.jobs import JobState
from divergraph.jobs.queue import JobQueue


@pytest.fixture
def queue():
    queue = JobQueue()
    yield queue
    queue.close()


def test_jobs_run_in_order_and_keep_their_results(queue):
    order = []
    jobs = [
        queue.submit(name, lambda progress, name=name: order.append(name) or name.upper())
        for name in ("one", "two", "three")
    ]
    assert all(job.wait(30) for job in jobs)
    assert order == ["one", "two", "three"]
    assert [job.result for job in queue.jobs] == ["ONE", "TWO", "THREE"]
    assert [job.state for job in jobs] == [JobState.DONE] * 3


def test_a_failed_job_keeps_its_error_and_the_next_one_runs(queue):
    bad = queue.submit("bad", lambda progress: 1 // 0)
    good = queue.submit("good", lambda progress: 5)
    assert good.wait(30)
    assert bad.state is JobState.FAILED
    assert isinstance(bad.error, ZeroDivisionError)
    assert good.result == 5


def test_a_running_job_tells_its_stage_and_can_be_cancelled(queue):
    told, go_on = threading.Event(), threading.Event()

    def task(progress):
        progress.stage("comparing", 10)
        progress.step(4, "conv1")
        told.set()
        go_on.wait(30)
        progress.step()

    running = queue.submit("running", task)
    waiting = queue.submit("waiting", lambda progress: 1)
    assert told.wait(30)
    stage = running.stage
    assert (stage.text, stage.done, stage.total, stage.note) == ("comparing", 4, 10, "conv1")
    waiting.cancel()
    running.cancel()
    go_on.set()
    assert waiting.wait(30)
    assert (running.state, waiting.state) == (JobState.CANCELLED, JobState.CANCELLED)
    assert waiting.result is None


def test_comparisons_are_jobs_of_a_queue_and_end_where_they_are_cancelled(queue, tmp_path):
    for side in ("device", "golden"):
        (tmp_path / side).mkdir()
        for name in "abc":
            np.save(tmp_path / side / f"{name}.npy", np.arange(9.0))
    request = DiffRequest(tmp_path / "device", tmp_path / "golden")
    done = queue.submit("diff", lambda progress: diff_dumps(request, progress))
    assert done.wait(30)
    assert (done.state, done.result.compared) == (JobState.DONE, 3)
    assert (done.stage.text, done.stage.done, done.stage.total) == ("comparing tensors", 3, 3)

    class Cancelling:
        """Cancels the job at its first compared tensor."""

        def __init__(self, progress):
            self.stage, self._step = progress.stage, progress.step

        def step(self, amount=1, note=""):
            queue.jobs[-1].cancel()
            self._step(amount, note)

    stopped = queue.submit("diff", lambda progress: diff_dumps(request, Cancelling(progress)))
    assert stopped.wait(30)
    assert (stopped.state, stopped.result) == (JobState.CANCELLED, None)


def test_a_closed_queue_takes_nothing(queue):
    queue.close()
    with pytest.raises(RuntimeError, match="closed"):
        queue.submit("late", lambda progress: 1)
