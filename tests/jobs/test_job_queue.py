"""A queue does one job after the other and never takes its front end down."""

from __future__ import annotations

import threading

import pytest

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


def test_a_closed_queue_takes_nothing(queue):
    queue.close()
    with pytest.raises(RuntimeError, match="closed"):
        queue.submit("late", lambda progress: 1)
