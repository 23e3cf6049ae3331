"""Jobs give the same results in order, whoever does them and whatever dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_works import KillsAt, KillsOnce, Square, TooLarge

from divergraph.jobs import Job, JobCancelledError, JobState, SerialExecutor, chosen_executor
from divergraph.jobs.processes import ProcessExecutor
from divergraph.jobs.work import in_batches


def run(items, work, executor=None, **options):
    return Job(items, work, [1] * len(items), executor=executor, **options).run()


@given(
    st.lists(st.integers(0, 50), max_size=60),
    st.integers(1, 100),
    st.integers(1, 10),
)
def test_batches_hold_every_item_once_and_keep_to_their_limits(sizes, most_bytes, most_items):
    numbers = range(len(sizes))
    found = list(in_batches(numbers, sizes, most_bytes=most_bytes, most_items=most_items))
    assert [number for batch in found for number in batch] == list(numbers)
    for batch in found:
        weight = sum(sizes[number] for number in batch)
        assert len(batch) <= most_items
        assert weight <= most_bytes or len(batch) == 1


def test_processes_give_what_one_process_gives():
    items = list(range(300))
    assert run(items, Square(), ProcessExecutor(2)) == run(items, Square(), SerialExecutor())


def test_processes_that_cannot_be_forked_are_started_anew():
    # With a second thread a fork would be unsafe, so the workers are fresh interpreters.
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        assert run([1, 2, 3], Square(), ProcessExecutor(2)) == [1, 4, 9]
    finally:
        waiting.set()
        thread.join()


BESIDE_A_BAR = """
from io import StringIO
from rich.console import Console
from rich.progress import Progress
from divergraph.jobs import Job
from divergraph.jobs.processes import ProcessExecutor
from job_works import Square

class OfThisProgram(Square):
    'Only a copy of this process knows it: it cannot be pickled.'
    def __reduce__(self):
        raise TypeError

with Progress(console=Console(file=StringIO(), force_terminal=True)) as bar:
    bar.add_task("comparing")
    found = Job(range(9), OfThisProgram(), [1] * 9, executor=ProcessExecutor(2)).run()
print(found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_the_thread_of_a_progress_bar_does_not_keep_from_forking():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_A_BAR],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == str([number * number for number in range(9)]), done.stderr


def test_a_worker_killed_in_the_middle_costs_nothing(tmp_path):
    items = list(range(50))
    work = KillsOnce(tmp_path / "killed")
    assert run(items, work, ProcessExecutor(2)) == [item * item for item in items]
    assert work.mark.exists()


@pytest.mark.slow
def test_items_that_kill_their_process_are_lost_alone():
    items = list(range(40))
    found = run(items, KillsAt(frozenset({7, 8, 31})), ProcessExecutor(2))
    assert found == [-item if item in (7, 8, 31) else item * item for item in items]


@pytest.mark.parametrize("workers", [1, 2])
def test_items_too_large_for_the_memory_are_lost_alone(workers):
    executor = SerialExecutor() if workers == 1 else ProcessExecutor(workers)
    assert run([0, 1, 2, 3, 4], TooLarge(), executor) == [0, -1, 2, -3, 4]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_in_the_work_is_told(workers):
    executor = SerialExecutor() if workers == 1 else ProcessExecutor(workers)
    job = Job([100], TooLarge(), [1], executor=executor)
    with pytest.raises(LookupError, match="not a hundred"):
        job.run()
    assert job.progress.state is JobState.FAILED


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_can_be_stopped(workers, tmp_path):
    executor = SerialExecutor() if workers == 1 else ProcessExecutor(workers)
    items = list(range(400))
    job = Job(
        items,
        Square(tmp_path),
        [1] * 400,
        executor=executor,
        watch=lambda progress, done: job.cancel(),
    )
    with pytest.raises(JobCancelledError):
        job.run()
    assert job.progress.state is JobState.CANCELLED
    assert 0 < job.progress.done < 400


def test_progress_counts_items_and_bytes():
    seen = []
    job = Job(
        [1, 2, 3],
        Square(seconds=0.001),
        [100, 200, 300],
        watch=lambda progress, done: seen.append(progress),
    )
    assert job.progress.state is JobState.WAITING
    job.run()
    assert seen[-1].done == 3
    assert job.progress.state is JobState.DONE
    assert job.progress.bytes_done == job.progress.bytes_total == 600
    assert job.progress.rate > 0
    assert job.progress.left == 0
    assert job.progress.rate_text().endswith("/s")


def test_little_work_starts_no_process():
    assert isinstance(chosen_executor(items=100, size=1000), SerialExecutor)
    assert isinstance(chosen_executor(items=100, size=1000, jobs=2), ProcessExecutor)
    assert isinstance(chosen_executor(items=1, size=1 << 30, jobs=8), SerialExecutor)
