"""A disk that gets full ends in one sentence, and what was there stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from full_run import sample_run
from own_mounts import own_mounts

from graphstore.contract import QueryParameters
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.child_process import ChildProcess
from graphstore.errors import StoreError
from graphstore.model import Side

pytestmark = pytest.mark.thorough

MADE = Path(__file__).parents[1] / "made"

CHILD = """
import os, resource, shutil, subprocess, sys
from pathlib import Path
from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError, StoreError
sys.path.insert(0, sys.argv[1])
import full_run as samples
root = Path(sys.argv[2])
"""


def answer_of(code: str, root: Path, *args: str, wrap: tuple[str, ...] = ()) -> str:
    """What a process prints; it must end in order, whatever its disk does."""
    command = [*wrap, sys.executable, "-c", CHILD + code, str(MADE), str(root), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


FILL_LEVELS = """
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(root)], check=True)
first, second = samples.sample_run("first"), samples.sample_run("second")
with EmbeddedStore(root / "s") as store:
    store.save_run(first)
    right = repr(store.run_data("first"))
    size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
levels = int(sys.argv[3])
filler, saved = root / "filler", 0
for level in range(levels):
    free = int((2**20 + 3 * size) * level / max(1, levels - 1))
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(root).free - free))
    try:
        with EmbeddedStore(root / "s") as store:
            store.save_run(second)
    except StoreError as error:
        assert "\\n" not in str(error), error
        print(error)
    filler.unlink()
    with EmbeddedStore(root / "s") as store:
        there = [run.name for run in store.runs()]
        assert store.check() == store.info().pending == (), (level, store.info())
        assert repr(store.run_data("first")) == right
        if "second" in there:
            assert repr(store.run_data("second")).replace("second", "first") == right
            store.delete("second")
            saved += 1
        else:
            assert there == ["first"]
print("saved", saved)
"""


@pytest.mark.slow
@pytest.mark.parametrize("levels", [6, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_at_every_fill_level_there_is_the_old_store_or_the_new(tmp_path: Path, levels: int) -> None:
    *told, last = answer_of(FILL_LEVELS, tmp_path, str(levels), wrap=own_mounts()).splitlines()
    saved = int(last.removeprefix("saved "))
    assert saved + len(told) == levels
    assert 0 < saved < levels
    for sentence in told:
        assert "No space left" in sentence or "full" in sentence, told


ARRAYS = """
from shaped_runs import chain_run
from graphstore.embedded import outline_files
from graphstore.model import Side
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(root)], check=True)

def asked():
    with EmbeddedStore(root / "s") as store:
        found = [store.arrays("big", side) for side in Side]
    return [(each.ids, each.successor_ops.tolist(), each.number) for each in found]

def kept():
    return list(root.glob("s/runs/*/arrays-*"))

outline_files._ROOM = 0  # else it is not even tried on a disk that is nearly full
with EmbeddedStore(root / "s") as store:
    store.save_run(chain_run("big", "net", 12_000))
right, levels, counts = asked(), int(sys.argv[3]), []
size = sum(path.stat().st_size for path in kept())
filler = root / "filler"
for level in range(levels):
    for path in kept():
        path.unlink()
    free = int(1.2 * size * level / max(1, levels - 1))
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(root).free - free))
    assert asked() == right
    counts.append(len(kept()))
    assert asked() == right
    filler.unlink()
    assert asked() == right
    with EmbeddedStore(root / "s") as store:
        assert store.check() == store.info().pending == ()
print(*sorted(set(counts)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("levels", [4, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_where_arrays_do_not_fit_they_are_not_kept(tmp_path: Path, levels: int) -> None:
    """None, one or both graphs' files are there, each whole."""
    counts = answer_of(ARRAYS, tmp_path, str(levels), wrap=own_mounts()).split()
    assert {"0", "2"} <= set(counts)


FILL = """
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + sys.argv[3], "none", str(root)], check=True)
saved = 0
try:
    for saved in range(20):
        with EmbeddedStore(root / "s") as store:
            store.save_run(samples.sample_run(f"run{saved:02}"))
except DivergraphError as error:
    print(type(error).__name__, error)
with EmbeddedStore(root / "s") as store:
    assert [run.name for run in store.runs()] == [f"run{n:02}" for n in range(saved)], saved
    assert store.check() == store.info().pending == ()
    for run in store.runs():
        assert len(store.comparisons(run.name)) == 8
if saved:
    with EmbeddedStore(root / "s") as store:
        store.rename("run00", "still possible")
        store.delete("still possible")
        store.save_run(samples.sample_run("again"))
        print("saved again")
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["2500k", "1100k", "4k"])
def test_a_disk_that_gets_full(tmp_path: Path, size: str) -> None:
    answer = answer_of(FILL, tmp_path, size, wrap=own_mounts())
    assert answer.startswith("StoreError "), answer
    assert "saved again" in answer or size != "2500k", answer


LIMITED = """
sys.dont_write_bytecode = True  # cut modules would be kept
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    with EmbeddedStore(root) as store:
        store.save_run(samples.sample_run("first"), replace=True)
except DivergraphError as error:
    print(type(error).__name__, error)
else:
    print("saved")
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["0", "10", "3000"])
@pytest.mark.parametrize("there", [False, True])
def test_files_that_may_not_grow_keep_what_was_there(
    tmp_path: Path, limit: str, there: bool
) -> None:
    root = tmp_path / "store"
    data = sample_run("first")
    if there:
        with EmbeddedStore(root) as store:
            store.save_run(data)
    assert answer_of(LIMITED, root, limit).startswith("StoreError ")
    with EmbeddedStore(root) as store:
        assert [run.name for run in store.runs()] == (["first"] if there else [])
        if there:
            assert store.graph("first") == data.device
        store.save_run(data, replace=True)
        assert store.graph("first", Side.GOLDEN) == data.golden


COMMAND = """
from divergraph.cli.main import run
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "none", str(root)], check=True)
print(run(["copy", "first", "--store", sys.argv[3], "--to", str(root / "s")]))
"""


@pytest.mark.slow
def test_a_copy_to_a_full_disk_ends_with_one_line_and_its_code(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "from") as store:
        store.save_run(sample_run("first"))
    (tmp_path / "to").mkdir()
    command = [*own_mounts(), sys.executable, "-c", CHILD + COMMAND]
    places = [str(MADE), str(tmp_path / "to"), str(tmp_path / "from")]
    done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("divergraph: ")


@pytest.mark.slow
def test_an_engine_that_dies_is_one_sentence_and_the_next_question_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies while it writes, as by ``terminate`` or for want of memory."""
    asked = ChildProcess.ask

    def killing(child: ChildProcess, request: object) -> object:
        child.kill()
        return asked(child, request)

    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        with monkeypatch.context() as patch:
            patch.setattr(ChildProcess, "ask", killing)
            with pytest.raises(StoreError, match=r"ended while it wrote \(SIGKILL\)"):
                store.query("MATCH (op:Op) RETURN count(op)", QueryParameters(), "first")
        assert store.graph("first") == sample_run("first").device
        assert store.info().pending == ()
