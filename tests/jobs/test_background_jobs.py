"""Commands as processes that outlive who started them: real ones, stopped and killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from divergraph.api.demo import demo_data
from divergraph.jobs.background.job_files import (
    ENDED,
    LOCK,
    PROCESS,
    PROGRESS,
    REQUEST,
    read_json,
    write_json,
)
from divergraph.jobs.background.progress_file import ProgressFile, ProgressReader
from divergraph.jobs.background.shelf import BackgroundState, JobShelf, store_key
from graphstore.errors import InputError
from graphstore.file_lock import is_locked
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

PATIENCE = 120.0


@pytest.fixture
def shelf(tmp_path):
    return JobShelf(tmp_path / "jobs")


@pytest.fixture
def store(tmp_path):
    return store_key(str(tmp_path / "store"))


@pytest.fixture
def model(tmp_path):
    """An ONNX model of one op."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "net", [x], [y])
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph), path)
    return path


def compare_words(store, *more):
    data = demo_data()
    sides = ["--golden", data.golden, "--golden-dump", data.golden_dump]
    sides += ["--device", data.device, "--device-dump", data.device_dump]
    return ["compare", *map(str, sides), "--run", "lenet", "--store", store, *more]


def now(shelf, job):
    return next(each for each in shelf.jobs() if each.id == job.id)


def wait(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.02)


def wait_for_stage(job, text):
    reader = ProgressReader(job.progress_path)
    wait(lambda: any(text in stage.text for stage in reader.look().stages))


def wait_for_end(shelf, job):
    wait(lambda: not is_locked(job.folder / LOCK))
    return now(shelf, job)


def test_a_command_runs_is_listed_and_tells_how_it_ended(shelf, store, model):
    job = shelf.start(["import", str(model), "--name", "net", "--store", store], store)
    assert [each.id for each in shelf.jobs(store)] == [job.id]
    assert shelf.jobs("another store") == []
    ended = wait_for_end(shelf, job)
    assert (ended.state, ended.exit_code) == (BackgroundState.ENDED, 0)
    told = ProgressReader(ended.progress_path).look()
    assert told.kept == ("net",)
    assert "net: onnx original graph" in shelf.log(ended)
    with open_store(store) as opened:
        assert [graph.name for graph in opened.graphs()] == ["net"]
    shelf.clear(ended)
    assert shelf.jobs() == []
    assert list(shelf.root.iterdir()) == []


def test_a_command_that_fails_leaves_its_sentence(shelf, store, tmp_path):
    job = shelf.start(["import", str(tmp_path / "none.onnx"), "--store", store], store)
    ended = wait_for_end(shelf, job)
    assert (ended.state, ended.exit_code) == (BackgroundState.ENDED, 2)
    failed = ProgressReader(ended.progress_path).look().failed
    assert "none.onnx" in failed
    assert failed in shelf.log(ended)


def put_over(shelf, store, name, days, ended=True):
    """A job that was over so many days ago; one that did not end is lost."""
    folder, then = shelf.root / name, time.time() - days * 24 * 3600
    folder.mkdir(parents=True)
    request = {"words": ["demo"], "store": store, "directory": str(shelf.root), "asked": then}
    write_json(folder / REQUEST, request)
    if ended:
        write_json(folder / ENDED, {"exit_code": 0, "at": then})


def test_a_wrong_command_line_leaves_what_click_says_and_starting_it_forgets_old_jobs(shelf, store):
    for place in range(50):
        put_over(shelf, store, f"20000102-{place:02}", days=1)
    put_over(shelf, store, "20000101-ended-before-50-others", days=2)
    put_over(shelf, store, "20000101-may-be-taken-up", days=29, ended=False)
    put_over(shelf, store, "20000101-lost-long-ago", days=31, ended=False)
    put_over(shelf, store, "20000103-ended-long-ago", days=31)
    ended = wait_for_end(shelf, shelf.start(["compare", "--golden", "x"], store))
    assert ended.exit_code == 2
    assert "Missing option" in ProgressReader(ended.progress_path).look().failed
    newest, *others, oldest = [job.id for job in shelf.jobs()]
    assert (newest, oldest) == (ended.id, "20000101-may-be-taken-up")
    assert others == [f"20000102-{place:02}" for place in reversed(range(1, 50))]


@pytest.mark.slow
def test_a_tensor_that_does_not_fit_is_told_while_the_comparison_goes_on(shelf, store, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(demo_data().golden_dump, dump)
    for path in dump.glob("LeNet_conv2_Relu.0.*"):
        np.save(path, np.zeros(3, np.float32))
    words = compare_words(store, "--method", "thresholds")
    words[words.index("--golden-dump") + 1] = str(dump)
    ended = wait_for_end(shelf, shelf.start(words, store))
    told = ProgressReader(ended.progress_path).look()
    (at,) = (at for at, text in told.problems if "Conv2DRelu:0: shapes differ" in text)
    assert at <= next(stage.began for stage in told.stages if stage.text == "finding origins")
    counts = {words: int(number) for number, words in re.findall(r"(\d+) ([a-z ]+)", told.found)}
    assert sum(counts.values()) == 126
    assert counts["not compared"] >= 1
    assert counts["over a limit"] > 50
    assert "; first over a limit: LeNet/" in told.found


@pytest.mark.slow
def test_a_stopped_comparison_keeps_nothing_and_can_go_on(shelf, store):
    job = shelf.start(compare_words(store), store)
    wait_for_stage(job, "comparing tensors")
    with pytest.raises(InputError, match="running already"):
        JobShelf(shelf.root).go_on(job)
    with pytest.raises(InputError, match="stop it first"):
        JobShelf(shelf.root).clear(job)
    shelf.stop(job)
    stopped = now(shelf, job)
    assert stopped.state is BackgroundState.STOPPED
    with open_store(store) as opened:
        assert opened.runs() == []
    again = wait_for_end(shelf, shelf.go_on(stopped))
    assert (again.state, again.exit_code) == (BackgroundState.ENDED, 1)
    told = ProgressReader(again.progress_path).look()
    assert (told.attempt, told.kept) == (2, ("lenet",))


@pytest.mark.slow
def test_a_process_that_does_not_listen_is_ended(shelf, store):
    job = shelf.start(compare_words(store), store)
    wait(lambda: read_json(job.folder / PROCESS))
    os.kill(read_json(job.folder / PROCESS)["pid"], signal.SIGSTOP)
    shelf.stop(job, grace=0.2)
    assert now(shelf, job).state is BackgroundState.STOPPED
    assert not is_locked(job.folder / LOCK)


@pytest.mark.slow
def test_a_process_that_was_killed_is_said_to_be_lost(shelf, store):
    job = shelf.start(compare_words(store), store)
    wait_for_stage(job, "reading graphs")
    os.kill(read_json(job.folder / PROCESS)["pid"], signal.SIGKILL)
    lost = wait_for_end(shelf, job)
    assert (lost.state, lost.exit_code) == (BackgroundState.LOST, None)


@pytest.mark.slow
def test_a_number_that_another_process_has_now_is_not_signalled(shelf, store):
    job = shelf.start(compare_words(store), store)
    wait(lambda: read_json(job.folder / PROCESS))
    path = job.folder / PROCESS
    real = path.read_text(encoding="utf-8")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        told = read_json(path) | {"pid": other.pid}
        path.write_text(str(told).replace("'", '"'), encoding="utf-8")
        shelf._signal(job, signal.SIGKILL)
        assert other.poll() is None
    finally:
        other.communicate(b"\n")
        path.write_text(real, encoding="utf-8")
        shelf.stop(job)


@pytest.mark.slow
def test_a_job_goes_on_when_who_started_it_is_killed(shelf, store, model):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from divergraph.jobs.background.shelf import JobShelf\n"
        "root, store, model = sys.argv[1:]\n"
        "JobShelf(Path(root)).start(['import', model, '--store', store], store)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", code, str(shelf.root), store, str(model)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    (job,) = shelf.jobs(store)
    ended = wait_for_end(shelf, job)
    assert (ended.state, ended.exit_code) == (BackgroundState.ENDED, 0)


def test_what_is_half_written_is_read_when_it_is_whole(tmp_path):
    path = tmp_path / PROGRESS
    progress = ProgressFile(path)
    progress.attempt(1)
    progress.stage("comparing", 10)
    for _ in range(10):
        progress.step(note="fast")
    progress.close()
    whole = path.read_bytes()
    reader = ProgressReader(path)
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        reader.look()
    path.write_bytes(whole)
    (stage,) = reader.look().stages
    assert (stage.text, stage.done, stage.total, stage.note, stage.share) == (
        "comparing", 10, 10, "fast", 1.0,
    )  # fmt: skip
    assert whole.count(b'"done"') < 5, "steps are told now and then only"


def test_lines_that_are_none_of_ours_change_nothing(tmp_path):
    path = tmp_path / PROGRESS
    path.write_text('{"stage": 3}\n[1]\nno json\n{"done": 1, "note": ""}\n{"stage": "a"}\n')
    assert ProgressReader(path).look().stages == ()


def test_a_folder_that_is_gone_does_not_keep_a_command_from_its_work(tmp_path, model):
    environment = {**os.environ, "DIVERGRAPH_JOB": str(tmp_path / "gone")}
    words = [sys.executable, "-m", "divergraph", "detect", str(model)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "graph, onnx" in done.stdout
