"""A job that was killed goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_works import Square

from divergraph.jobs import Job, JobCancelledError, Journal
from divergraph.jobs.journal import file_stamp


def journal(keys, **options):
    return Journal(
        lambda: "squares", lambda number: keys[number], str, int, worth_seconds=0, **options
    )


def run(items, folder, keys=None, **options):
    work = Square(folder)
    job = Job(items, work, [1] * len(items), journal=journal(keys or [*map(str, items)]), **options)
    return job.run(), job.progress


def stop_after(count):
    def watch(progress, done):
        if progress.done >= count:
            raise KeyboardInterrupt

    return watch


def test_what_was_done_before_a_stop_is_not_done_again(tmp_path, own_cache):
    items = list(range(60))
    with pytest.raises(KeyboardInterrupt):
        run(items, tmp_path, watch=stop_after(40))
    before = {path.name for path in tmp_path.iterdir() if path.is_file()}
    found, progress = run(items, tmp_path)
    assert found == [item * item for item in items]
    assert progress.resumed == len(before) >= 40
    done = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert set(done.values()) == {"x"}, "something was done twice"
    assert not list(own_cache.iterdir()), "a finished job leaves no journal"


def test_changed_items_are_done_again(tmp_path):
    items = list(range(40))
    with pytest.raises(KeyboardInterrupt):
        run(items, tmp_path, watch=stop_after(40))
    keys = [str(item) for item in items]
    keys[3] = "changed"
    keys[5] = ""
    assert run(items, tmp_path, keys)[1].resumed == 38


def test_a_journal_cut_by_the_kill_is_read_up_to_there(tmp_path, own_cache):
    items = list(range(60))
    with pytest.raises(KeyboardInterrupt):
        run(items, tmp_path, watch=stop_after(60))
    (path,) = own_cache.iterdir()
    text = path.read_text()
    path.write_text(text[: len(text) - 9] + "\n[1, 2]\nno json\n" + text.splitlines()[0] + "\n{")
    found, progress = run(items, tmp_path)
    assert found == [item * item for item in items]
    assert 0 < progress.resumed < 60


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "file"))
    assert run([1, 2], tmp_path)[0] == [1, 4]


def test_short_jobs_leave_no_journal(tmp_path, own_cache):
    job = Job([1, 2], Square(), [1, 1], journal=Journal(lambda: "short", str, str, int))
    assert job.run() == [1, 4]
    assert not own_cache.exists()


def test_stamps_follow_the_files(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(b"abc")
    os.utime(path, (1000, 1000))
    stamp = file_stamp([path])
    assert stamp == file_stamp([str(path)])
    path.write_bytes(b"abcd")
    os.utime(path, (1000, 1000))
    assert stamp != file_stamp([path])
    assert file_stamp([path, tmp_path / "none"]) == ""


@pytest.mark.parametrize("ahead", [-1e6, 0.0, 1e6])
def test_clocks_of_file_servers_do_not_matter(tmp_path, ahead):
    """What changed while it was read is done again, and nothing else."""
    files = [tmp_path / str(number) for number in range(40)]
    for path in files:
        path.write_text("first")
        os.utime(path, (time.time() + ahead, time.time() + ahead))

    class Changing(Square):
        """A file changes while it is read."""

        def __call__(self, item):
            if item == 3:
                files[3].write_text("then")
                os.utime(files[3], (time.time() + ahead + 1, time.time() + ahead + 1))
            return super().__call__(item)

    def begun(work, watch=None):
        kept = journal(list(map(str, files)), stamp=lambda number: file_stamp([files[number]]))
        items = list(range(40))
        return Job(items, work, [1] * 40, journal=kept, watch=watch)

    with pytest.raises(KeyboardInterrupt):
        begun(Changing(), stop_after(40)).run()
    job = begun(Square())
    assert job.run() == [item * item for item in range(40)]
    assert job.progress.resumed == 39


_PROGRAM = """
import sys
from pathlib import Path
from job_works import Square
from divergraph.jobs import Job, Journal
from divergraph.jobs.processes import ProcessExecutor
items = list(range(200))
keys = Journal(lambda: "killed", lambda number: str(items[number]), str, int, worth_seconds=0)
work, executor = Square(Path(sys.argv[1]), 0.01), ProcessExecutor(2)
job = Job(items, work, [1] * 200, executor=executor, journal=keys)
print(sum(job.run()), job.progress.resumed)
"""


@pytest.mark.slow
def test_a_job_killed_for_good_goes_on_and_leaves_no_workers(tmp_path, own_cache):
    done = tmp_path / "done"
    done.mkdir()
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    command = [sys.executable, "-c", _PROGRAM, str(done)]
    with subprocess.Popen(command, env=environment) as process:
        while not own_cache.is_dir() or not any(
            path.stat().st_size for path in own_cache.iterdir()
        ):
            time.sleep(0.01)
        workers = _children(process.pid)
        process.send_signal(signal.SIGKILL)
    assert len(workers) == 2
    while any(_alive(pid) for pid in workers):
        time.sleep(0.01)
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    total, resumed = map(int, again.stdout.split())
    assert total == sum(item * item for item in range(200))
    assert 0 < resumed < 200
    assert not list(own_cache.iterdir())
    once = [path for path in done.iterdir() if path.read_text() == "x"]
    assert len(once) >= resumed


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_stopped_job_of_another_thread_is_told(tmp_path):
    job = Job(list(range(100)), Square(), [1] * 100)
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.run()
