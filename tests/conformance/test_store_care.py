"""``info`` says what is there and what is wrong, ``repair`` puts it in order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from store_contents import flip, tables_of

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.disk import draft_folder, draft_path
from graphstore.errors import InputError, StoreError
from graphstore.schema.tables import SCHEMA_VERSION

pytestmark = pytest.mark.thorough

Sample = Callable[..., RunData]


@pytest.fixture
def root(tmp_path: Path, sample_run: Sample) -> Path:
    """A store with two runs and a graph."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        store.save_run(sample_run("second"))
        store.save_graph(sample_run("x").device, "graph")
    return tmp_path / "store"


@pytest.fixture
def care(root: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(root) as store:
        yield store


def dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.slow
def test_what_a_store_holds(store: GraphStore, sample_run: Sample) -> None:
    data = sample_run("first")
    store.save_run(data)
    store.save_run(sample_run("second"))
    store.save_graph(data.device, "graph")
    info = store.info()
    assert (info.url, info.schema) == (store.url, SCHEMA_VERSION)
    assert (info.runs, info.graphs) == (2, 1)
    assert info.ops == len(data.device.ops) + len(data.golden.ops), "shared graphs count once"
    assert (info.pending, info.damaged) == ((), ())
    assert store.repair() == ()
    assert store.check() == ()


def test_a_store_nothing_was_written_to(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "none") as store:
        info = store.info()
        assert (info.schema, info.runs, info.graphs, info.ops, info.bytes) == (None, 0, 0, 0, 0)
        assert store.repair() == store.check() == ()
        assert store.runs() == []
        with pytest.raises(InputError, match="nothing to query"):
            store.query("RETURN 1", QueryParameters())
    assert not (tmp_path / "none").exists()


def test_the_engine_and_the_disk_space(care: EmbeddedStore, root: Path) -> None:
    info = care.info()
    assert info.engine.startswith("ladybug 0.")
    files = [path for path in root.rglob("*") if path.is_file()]
    assert info.bytes == sum(path.stat().st_size for path in files)


def test_stores_and_entries_of_another_version_are_refused(care: EmbeddedStore, root: Path) -> None:
    """An entry of one may have been copied here by hand."""
    for path in (next(root.glob("runs/*/manifest.json")), root / "store.json"):
        said = {**json.loads(path.read_text()), "schema": 99}
        del said["checksum"]
        path.write_text(json.dumps(said))
        with pytest.raises(StoreError, match=r"version 99, .* 2 and 3 only.*that wrote") as caught:
            care.runs()
        assert caught.value.where == str(root if path.name == "store.json" else path)


@pytest.mark.slow
def test_equal_graphs_share_one_file(tmp_path: Path, sample_run: Sample) -> None:
    graph = sample_run("x").device
    with EmbeddedStore(tmp_path / "store") as store:
        first = store.save_graph(graph, "one")
        space = store.info().bytes
        second = store.save_graph(graph, "two")
        assert second.created > first.created
        assert space is not None
        assert store.info().bytes < 1.1 * space
        asked = "MATCH (i:Import) RETURN i.name, i.created, i.graph"
        for info in (first, second):
            rows = store.query(asked, QueryParameters(), info.name).rows
            assert rows == ((info.name, info.created, graph.id),)
        store.delete("one")
        assert store.graph("two") == graph
        store.save_graph(replace(graph, warnings=("other",)), "two", replace=True)
        assert store.graph("two").warnings == ("other",)


def test_what_dead_processes_left_is_removed(care: EmbeddedStore, root: Path) -> None:
    name = draft_path(root).name.split("-")
    name[-2] = str(dead_process())
    draft = root / "-".join(name)
    draft.mkdir()
    (draft / "graph.lbug").write_bytes(b"half")
    second = root / "runs" / "first" / "graph-12345678.lbug"
    second.write_bytes(b"a database that was to replace the first")
    tables = root / "runs" / "first" / "tables-12345678"
    tables.mkdir()
    orphan = root / "scratch" / "merged-of-long-ago"
    orphan.mkdir(parents=True)
    assert len(care.info().pending) == 4
    done = care.repair()
    assert len(done) == 4
    assert all(text.startswith("removed ") for text in done)
    assert not any(path.exists() for path in (draft, second, tables, orphan))
    assert care.repair() == care.info().pending == ()
    assert len(care.comparisons("first")) == 8


def test_what_others_write_or_keep_stays(care: EmbeddedStore, root: Path) -> None:
    (root / "runs" / "first" / "notes.txt").write_text("mine")
    of_another_host = root / ".writing-elsewhere-1-abcdef01"
    of_another_host.mkdir()
    asked = care.query("MATCH (r:Run) RETURN count(*)", QueryParameters())
    assert asked.rows == ((2,),)
    with draft_folder(root) as living:
        number = draft_path(root).name.split("-")
        number[-2] = str(dead_process())
        renamed = living.rename(root / "-".join(number))
        assert care.info().pending == ()
        assert care.repair() == ()
        assert renamed.exists(), "its writer holds a lock on it, whatever its number says"
        renamed.rename(living)
    assert of_another_host.exists()
    os.utime(of_another_host, (0, 0))
    assert len(care.repair()) == 1, "after a day it is nobody's"
    assert (root / "runs" / "first" / "notes.txt").exists()
    assert len(list((root / "scratch").iterdir())) == 1, "the merged database can be used again"


def cut(folder: Path) -> None:
    table = tables_of(folder) / "Op.parquet"
    table.write_bytes(table.read_bytes()[:-1])


DAMAGES = {
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "an empty manifest": lambda folder: (folder / "manifest.json").write_text(""),
    "another manifest": lambda folder: (folder / "manifest.json").write_text('{"database": "x"}'),
    "no table": lambda folder: (tables_of(folder) / "Op.parquet").unlink(),
    "no tables": lambda folder: shutil.rmtree(tables_of(folder)),
    "a cut table": cut,
    "a changed table": lambda folder: flip(tables_of(folder) / "Op.parquet"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("entry", ["runs/first", "graphs/graph"])
def test_damage_is_told_and_only_moved_if_asked(root: Path, damage: str, entry: str) -> None:
    DAMAGES[damage](root / entry)
    kind, name = entry.split("/")
    said = f"the {kind.removesuffix('s')} '{name}' is damaged"
    with EmbeddedStore(root) as store:
        info = store.info()
        assert [text.startswith(said) for text in info.damaged] == [True]
        assert info.runs + info.graphs == 2
        assert store.repair() == ()
        (told,) = store.check()
        assert told.startswith(said)
        assert (root / entry).exists()
        (done,) = store.repair(set_aside=True)
        assert done.startswith(said)
        assert f"moved to damaged/{kind}-{name}" in done
        assert store.check() == store.info().damaged == ()
        assert len(store.runs()) + len(store.graphs()) == 2
    assert list((root / "damaged" / f"{kind}-{name}").iterdir()) or damage.startswith("no ")


@pytest.mark.slow
def test_damaged_ones_of_one_name_do_not_meet(root: Path, sample_run: Sample) -> None:
    with EmbeddedStore(root) as store:
        for _ in range(3):
            cut(root / "runs" / "first")
            store.repair(set_aside=True)
            store.save_run(sample_run("first"))
    names = {path.name for path in (root / "damaged").iterdir()}
    assert names == {"runs-first", "runs-first-2", "runs-first-3"}


def test_a_store_opened_for_reading_is_not_repaired(root: Path) -> None:
    with EmbeddedStore(root, read_only=True) as store, pytest.raises(StoreError, match="reading"):
        store.repair()


@pytest.mark.slow
def test_a_copied_folder_is_a_store(root: Path, tmp_path: Path) -> None:
    """Sharing a run is copying its folder."""
    shutil.copytree(root / "runs" / "first", root / "runs" / "shared")
    with EmbeddedStore(root) as store:
        assert [run.name for run in store.runs()] == ["first", "second", "shared"]
        asked = store.query("MATCH (r:Run) RETURN r.name ORDER BY r.name", QueryParameters())
        assert [row[0] for row in asked.rows] == ["first", "second", "shared"]
