"""The embedded store's folder: whole entries or none, whatever happens to a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from full_run import sample_run

from graphstore.contract import QueryParameters
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.disk import remove_draft
from graphstore.embedded.folders import StoreFolder
from graphstore.errors import DivergraphError, InputError, NameTakenError, StoreError
from graphstore.open_store import open_store

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

CHILD = """
import resource, sys
from pathlib import Path
from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError
sys.path.insert(0, sys.argv[1])
import full_run as samples
root = Path(sys.argv[2])
"""
MADE = Path(__file__).parents[1] / "made"


def child(code: str, root: Path, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD + code, str(MADE), str(root), *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


def test_what_a_dead_process_left_goes_though_its_engine_still_writes(tmp_path: Path) -> None:
    for number in range(200):
        draft = tmp_path / f".writing-host-1-{number}"
        draft.mkdir()
        started = threading.Event()

        def write(draft: Path = draft, started: threading.Event = started) -> None:
            started.set()
            with suppress(FileNotFoundError):
                for file in range(30):
                    (draft / str(file)).touch()

        engine = threading.Thread(target=write)
        engine.start()
        started.wait()
        remove_draft(draft)
        engine.join()
        assert list(tmp_path.iterdir()) == []


DIE_AT_THE_FIRST_RENAME = """
import os
os.replace = Path.replace = lambda *names: os._exit(0)
with EmbeddedStore(root) as store:
    store.save_run(samples.sample_run("first"))
"""


def test_a_writer_that_dies_while_it_makes_the_store_leaves_nothing(
    tmp_path: Path, sample_run
) -> None:
    root = tmp_path / "store"
    answer_of(child(DIE_AT_THE_FIRST_RENAME, root))
    assert not (root / "store.json").exists()
    with EmbeddedStore(root) as store:
        assert store.runs() == []
        store.save_run(sample_run("after"))
    assert {path.name for path in root.iterdir()} == {"store.json", "runs", "graphs"}


IN_LITTLE_SPACE = """
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
with EmbeddedStore(root) as store:
    store.save_run(samples.sample_run("first"))
    print(len(store.comparisons("first")), len(store.graph("first").ops))
"""


@pytest.mark.parametrize("limit", [2**32, 2**34])
def test_a_small_address_space_is_enough(tmp_path: Path, limit: int) -> None:
    assert answer_of(child(IN_LITTLE_SPACE, tmp_path / "store", str(limit))) == "8 7"


def text_of(folder: StoreFolder) -> str:
    return (folder.entry("runs", "same").tables.folder / "Op.parquet").read_text()


def test_of_two_that_save_a_name_at_once_one_is_told(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path / "store")
    with folder.writing() as one, folder.writing() as other:
        for draft in (one, other):
            (draft / "tables").mkdir()
            (draft / "tables" / "Op.parquet").write_text(draft.name)
        folder.publish("runs", "same", one, {})
        with pytest.raises(NameTakenError, match="'same' was saved by someone else"):
            folder.publish("runs", "same", other, {})
        with pytest.raises(NameTakenError):
            folder.publish("graphs", "same", other, {}, replace=True)
        assert text_of(folder) == one.name
        folder.publish("runs", "same", other, {}, replace=True)
        assert text_of(folder) == other.name


REPLACE = """
for n in range(6):
    with EmbeddedStore(root) as store:
        store.save_run(samples.sample_run("same"), replace=True)
"""


@pytest.mark.slow
def test_runs_replaced_at_once_stay_whole(tmp_path: Path) -> None:
    root = tmp_path / "store"
    writers = [child(REPLACE, root) for _ in range(3)]
    for writer in writers:
        answer_of(writer)
    with EmbeddedStore(root) as store:
        assert store.comparisons("same")
    assert len(list((root / "runs" / "same").iterdir())) == 2, "manifest, tables"


def test_threads_read_at_once_while_the_run_is_replaced(tmp_path: Path, sample_run) -> None:
    found: list[int] = []
    troubles: list[BaseException] = []

    def read() -> None:
        try:
            found.extend(len(store.comparisons("first")) for _ in range(15))
        except DivergraphError as error:
            troubles.append(error)

    with EmbeddedStore(tmp_path / "store") as store, EmbeddedStore(tmp_path / "store") as writer:
        store.save_run(sample_run("first"))
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            writer.save_run(sample_run("first"), replace=True)
        for thread in threads:
            thread.join()
    assert troubles == []
    assert set(found) == {8}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_without_permission(tmp_path: Path, sample_run) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("first"))
        root.chmod(0o500)
        with pytest.raises(StoreError, match="cannot write the store"):
            store.save_run(sample_run("second"))
        root.chmod(0o700)
        assert [run.name for run in store.runs()] == ["first"]


def test_a_store_opened_for_reading_is_not_written(tmp_path: Path, sample_run) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("first"))
        store.save_run(sample_run("second"))
    before = sorted(path.name for path in root.rglob("*"))
    with open_store(root, read_only=True) as store:
        for change in (
            lambda: store.save_run(sample_run("third")),
            lambda: store.save_graph(sample_run("x").device, "mine"),
            lambda: store.delete("first"),
        ):
            with pytest.raises(StoreError, match="for reading only"):
                change()
        runs = "MATCH (r:Run) RETURN count(*)"
        assert store.query(runs, QueryParameters()).rows == ((2,),), "merged outside the store"
    assert sorted(path.name for path in root.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"database": 1}', '{"database": "graph.lbug"}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, sample_run, text: str) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("first"))
        manifest = root / "runs" / "first" / "manifest.json"
        manifest.write_text(text)
        for ask in (store.runs, lambda: store.graph("first")):
            with pytest.raises(StoreError) as caught:
                ask()
            assert str(manifest) in str(caught.value)


def test_a_damaged_table_is_named(tmp_path: Path, sample_run) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("first"))
    table = root / "runs" / "first" / "tables" / "Op.parquet"
    for spoil in (b"not a table", b"", table.read_bytes()[:-40]):
        table.write_bytes(spoil)
        with (
            EmbeddedStore(root) as store,
            pytest.raises(StoreError, match=r"Op\.parquet.*damaged"),
        ):
            store.states("first")
    table.unlink()
    with EmbeddedStore(root) as store, pytest.raises(StoreError, match="damaged"):
        store.states("first")


def test_the_manifest_is_plain_json(tmp_path: Path, sample_run) -> None:
    """Others may read it: scripts, and a later version of this program."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
    manifest = json.loads((tmp_path / "store" / "runs" / "first" / "manifest.json").read_text())
    assert manifest["kind"] == "run"
    assert manifest["run"]["verdict"] == "diverged"
    tables = manifest["tables"]
    assert all(
        (tmp_path / "store" / "runs" / "first" / tables["folder"] / name).is_file()
        for name in tables["files"]
    )


def test_urls_and_paths(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        assert store.url == str(tmp_path / "a")
    with open_store(f"file://{tmp_path}/b") as store:
        assert store.url == f"{tmp_path}/b"
    with pytest.raises(InputError, match="no store at ftp://"):
        open_store("ftp://example.org")


def test_a_store_named_from_where_one_is_now(tmp_path, monkeypatch):
    """The writing process is kept, and it started somewhere else."""
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        with open_store("store") as store:
            store.save_run(sample_run("one"))
            assert [run.name for run in store.runs()] == ["one"]
