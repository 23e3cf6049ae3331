"""Kills, full disks, folders that cannot be written, several at once: for real."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from own_mounts import own_mounts

from graphstore.contract import RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import StoreError

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

Sample = Callable[..., RunData]
MADE = Path(__file__).parents[1] / "made"

CHILD = """
import os, shutil, signal, sys
from pathlib import Path
import ladybug, pyarrow
from graphstore.transfer.backup import write_backup
from graphstore.transfer.restore import open_backup, restore
from graphstore.transfer.copying import copy_entry
from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError
sys.path.insert(0, sys.argv[1])
import full_run as samples
root = Path(sys.argv[2])
NEW = "2027-01-01T00:00:00Z"
"""

KILLED_AT_EVERY_STEP = """
base, backup = root / "base", root / "backup"
STEPS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link"}

def in_fork(action):
    process = os.fork()
    if process == 0:
        try:
            action()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)
    return os.waitpid(process, 0)[1]

def prepare():
    with EmbeddedStore(base) as store:
        store.save_run(samples.sample_run("first"))
        store.save_graph(samples.device_graph(), "graph")
    with EmbeddedStore(root / "newer") as store, backup.open("wb") as file:
        store.save_run(samples.sample_run("first", NEW))
        store.save_graph(samples.original_graph(), "graph")
        list(write_backup(store, file))

def save(store):
    store.save_run(samples.sample_run("first", NEW), replace=True)

def save_new(store):
    store.save_run(samples.sample_run("new", NEW))

def save_equal_graph(store):
    store.save_graph(samples.device_graph(), "twin")

def rename(store):
    store.rename("first", "new")

def delete(store):
    store.delete("first")

def copy(store):
    with EmbeddedStore(root / "newer") as newer:
        copy_entry(newer, store, "first", replace_it=True)

def restored(store):
    with open_backup(backup) as opened:
        list(restore(opened, store, replace_it=True))

def killed_at(step, action, place):
    def act():
        seen, last = 0, None
        def count(event, args):
            nonlocal seen, last
            if event in STEPS:
                # of the tables that are removed from one folder, one after the other, the first
                new = event, os.path.dirname(os.fsdecode(args[0]))
                seen, last = seen + (new != last or event != "os.remove"), new
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)
        with EmbeddedStore(place) as store:
            sys.addaudithook(count)
            action(store)
    return in_fork(act)

def check(place, action):
    with EmbeddedStore(place) as store:
        runs = {run.name: run.created for run in store.runs()}
        old = samples.sample_run("x").run.created
        allowed = {
            "save": [{"first": old}, {"first": NEW}],
            "save_new": [{"first": old}, {"first": old, "new": NEW}],
            "save_equal_graph": [{"first": old}],
            "rename": [{"first": old}, {"new": old}],
            "delete": [{"first": old}, {}],
            "copy": [{"first": old}, {"first": NEW}],
            "restored": [{"first": old}, {"first": NEW}],
        }[action.__name__]
        assert runs in allowed, runs
        for name in runs:
            data = store.run_data(name)
            assert len(data.comparisons) == 8
            assert data.device == samples.device_graph()
        for info in store.graphs():
            assert store.graph(info.name) in (samples.device_graph(), samples.original_graph())
        assert store.check() == store.info().damaged == ()
        store.repair()
        assert store.info().pending == ()
        if not (action is delete and not runs) and action is not rename:
            action(store)
        store.check_writable()
    left = {path.name for path in place.iterdir()}
    assert left <= {"store.json", "runs", "graphs", "scratch"}, left
    for entry in [*place.glob("runs/*"), *place.glob("graphs/*")]:
        assert len(list(entry.iterdir())) == 2, entry  # manifest, tables

assert in_fork(prepare) == 0
action = globals()[sys.argv[3]]
step = 0
while True:
    step += 1
    place = root / f"{action.__name__}-{step}"
    shutil.copytree(base, place)
    status = killed_at(step, action, place)
    if action is not save_new or os.WIFSIGNALED(status):
        assert in_fork(lambda: check(place, action)) == 0, (action.__name__, step)
    if not os.WIFSIGNALED(status):
        assert status == 0, status
        break
    shutil.rmtree(place)
print(step - 1)
"""


def child(code: str, root: Path, *args: str, wrap: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*wrap, sys.executable, "-c", CHILD + code, str(MADE), str(root), *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=280)
    assert process.returncode == 0, error
    return out.strip()


@pytest.mark.parametrize(
    ("action", "steps"),
    [
        pytest.param("save", 4, marks=pytest.mark.slow),
        pytest.param("save_new", 2, marks=pytest.mark.slow),
        pytest.param("save_equal_graph", 3, marks=pytest.mark.slow),
        ("rename", 1),
        ("delete", 2),
        pytest.param("copy", 4, marks=pytest.mark.slow),
        pytest.param("restored", 8, marks=pytest.mark.exhaustive),
    ],
)
def test_killed_at_any_step_there_is_the_old_or_the_new(
    tmp_path: Path, action: str, steps: int
) -> None:
    """Every rename, new folder, link and removal is a moment to die at."""
    assert int(answer_of(child(KILLED_AT_EVERY_STEP, tmp_path, action))) >= steps


WRITE = """
print("ready", flush=True)
for n in range(int(sys.argv[3])):
    with EmbeddedStore(root) as store:
        store.save_run(samples.sample_run("first", f"2027-01-01T00:00:{n:02}Z"), replace=True)
"""


@pytest.mark.slow
def test_another_process_reads_while_one_writes(tmp_path: Path, sample_run: Sample) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("first"))
        writer = child(WRITE, tmp_path, "2")
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        seen = set()
        while writer.poll() is None:
            data = store.run_data("first")
            assert len(data.comparisons) == 8
            assert store.repair() == (), "nothing of the living writer is touched"
            seen.add(data.run.created)
        answer_of(writer)
        assert store.run("first").created == "2027-01-01T00:00:01Z"
    assert len(seen) >= 1


SAVE_ONCE = """
print("ready", flush=True)
sys.stdin.readline()
try:
    with EmbeddedStore(root) as store:
        if sys.argv[3] == "run":
            store.save_run(samples.sample_run("same"))
        else:
            store.save_graph(samples.device_graph(), "same")
    print("saved")
except DivergraphError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("what", "ends"), [("run", ["NameTakenError", "saved"]), ("graph", ["saved", "saved"])]
)
def test_two_that_save_one_name_at_once(tmp_path: Path, what: str, ends: list[str]) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD + SAVE_ONCE, str(MADE), str(tmp_path / "s"), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    answers = [writer.communicate("go\n", timeout=120)[0].strip() for writer in writers]
    assert sorted(answers) == ends
    with EmbeddedStore(tmp_path / "s") as store:
        assert len(store.runs()) + len(store.graphs()) == 1
        assert store.check() == ()


def test_a_stopped_writer_is_told_from_a_dead_one(tmp_path: Path, sample_run: Sample) -> None:
    """A writer that only waits keeps its draft; killed, it is cleared away."""
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("first"))
        writer = child(HOLD_A_DRAFT, tmp_path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        writer.send_signal(signal.SIGSTOP)
        assert store.info().pending == store.repair() == ()
        writer.kill()
        writer.communicate()
        assert len(store.info().pending) == 1
        assert len(store.repair()) == 1
        assert store.info().pending == ()


HOLD_A_DRAFT = """
import time
with EmbeddedStore(root) as store, store._folder.writing():
    print("ready", flush=True)
    time.sleep(600)
"""


LOCKED = """
import subprocess
with EmbeddedStore(root) as store:
    store.save_run(samples.sample_run("first"))
    store.rename("first", "renamed")
subprocess.run(["mount", "--bind", str(root), str(root)], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", str(root)], check=True)
from graphstore.contract import QueryParameters
with EmbeddedStore(root) as store:
    assert len(store.run_data("renamed").comparisons) == 8
    asked = store.query("MATCH (r:Run) RETURN r.name", QueryParameters())
    assert asked.rows == (("renamed",),)
    assert store.info().runs == 1
    for change in (
        lambda: store.save_run(samples.sample_run("second")),
        lambda: store.save_graph(samples.device_graph(), "graph"),
        lambda: store.rename("renamed", "again"),
        lambda: store.delete("renamed"),
        store.check_writable,
        EmbeddedStore(root / "not" / "there").check_writable,
    ):
        try:
            change()
        except DivergraphError as error:
            print(error)
        else:
            print("nothing said")
"""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    said = answer_of(child(LOCKED, tmp_path, wrap=own_mounts())).splitlines()
    assert len(said) == 6
    for line in said:
        assert "Read-only file system" in line, said


@pytest.mark.parametrize("place", ["file", "file/store"])
def test_a_place_that_cannot_hold_a_store_is_said_early(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"not a folder|Not a directory"):
        EmbeddedStore(tmp_path / place).check_writable()


def test_looking_whether_it_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "a" / "b") as store:
        store.check_writable()
    assert list(tmp_path.iterdir()) == []
