"""Runs saved together answer as runs saved one by one, and share what they have in common."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from store_contents import flip

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.cypher.queries import list_queries
from graphstore.embedded import EmbeddedStore
from graphstore.errors import UnknownNameError
from graphstore.model import OpState
from graphstore.transfer.backup import write_backup
from graphstore.transfer.copying import Done, copy_entries, whole_run_hash
from graphstore.transfer.restore import open_backup, restore

pytestmark = pytest.mark.thorough

NAMES = ("net.rank0", "net.rank1's", "net.rank2", "net.rank3")

COUNTS = (
    "MATCH (m:Metric) RETURN m.run AS run, count(*) ORDER BY run",
    "MATCH (r:Run)-[:COMPARED]->(:Metric)-[:OF]->(:Op) RETURN r.name AS run, count(*) ORDER BY run",
    "MATCH (:Op)-[f:FUSES]->(:Op) RETURN f.run AS run, count(*) ORDER BY run",
    "MATCH (:Op)-[n:NEXT_MEASURED]->(:Op) RETURN n.run AS run, count(*) ORDER BY run",
    "MATCH (r:Run)-[:FOUND]->(f:Finding) RETURN r.name AS run, count(*) ORDER BY run",
)


def places(sample_run) -> Iterator[RunData]:
    """Runs of two graphs, which differ in what was found; one is of another graph."""
    for number, name in enumerate(NAMES[:3]):
        data = sample_run(name)
        if number == 1:
            states = dict.fromkeys(data.states, OpState.CLEAN)
            data = replace(data, states=states, comparisons=data.comparisons[::-1], findings=())
        yield data
    data = sample_run(NAMES[3])
    yield replace(data, device=replace(data.device, source="another file"))


def same(store: GraphStore, data: RunData) -> bool:
    """True if the run is stored as it is; NaN is not equal to itself."""
    return whole_run_hash(store.run_data(data.run.name)) == whole_run_hash(data)


def answers(store: GraphStore, name: str) -> list[object]:
    """What every named query without an op says of a run."""
    return [
        store.named(query.name, name, dict.fromkeys(query.parameters, 3)).rows
        for query in list_queries()
        if set(query.parameters) <= {"limit", "times"}
    ]


@pytest.fixture
def together(store: GraphStore, sample_run) -> GraphStore:
    assert store.save_runs(places(sample_run)) == ()
    return store


@pytest.mark.slow
def test_each_answers_as_if_it_were_alone(tmp_path: Path, sample_run) -> None:
    """Of folders; a server has all runs in one database."""
    with (
        EmbeddedStore(tmp_path / "together") as together,
        EmbeddedStore(tmp_path / "alone") as alone,
    ):
        together.save_runs(places(sample_run))
        for data in places(sample_run):
            alone.save_run(data)
        for name in NAMES:
            assert answers(together, name) == answers(alone, name)
        for text in COUNTS:
            for target in (*NAMES, None):
                asked = text, QueryParameters(), target
                assert together.query(*asked) == alone.query(*asked)


def test_origins_of_all_are_those_of_each(together: GraphStore, sample_run) -> None:
    """Whatever became of one of them since they were saved, as they were."""
    assert {run.name for run in together.runs()} == set(NAMES)
    assert all(same(together, data) for data in places(sample_run))
    together.save_run(sample_run("alone"))
    together.rename(NAMES[0], "other")
    together.save_run(replace(sample_run(NAMES[0]), origins=()))
    together.delete(NAMES[2])
    names = [run.name for run in together.runs()]
    found = together.origins_of(names)
    assert found == {name: together.origins(name) for name in names}
    assert found["other"]
    assert not found[NAMES[0]]
    assert together.origins_of(["other"]) == {"other": found["other"]}
    with pytest.raises(UnknownNameError):
        together.origins_of([NAMES[2]])


@pytest.mark.slow
def test_one_of_them_is_renamed_replaced_and_deleted(together: GraphStore, sample_run) -> None:
    first, second, third, _ = places(sample_run)
    together.rename(NAMES[0], "other")
    renamed = replace(first, run=replace(first.run, name="other"))
    assert same(together, renamed)
    (row,) = together.named("runs", "other", {}).rows[:1]
    assert "other" in row or not isinstance(together, EmbeddedStore)
    together.save_run(replace(third, run=replace(second.run)), replace=True)
    assert together.states(NAMES[1]) == third.states
    together.delete(NAMES[2])
    with pytest.raises(UnknownNameError):
        together.run(NAMES[2])
    assert same(together, renamed)
    together.delete("other")
    assert {run.name for run in together.runs()} == {NAMES[1], NAMES[3]}
    assert together.run_data(NAMES[3]).device.source == "another file"
    assert not [text for text in together.info().pending if "shared/" in text]


@pytest.mark.slow
def test_names_that_are_taken_are_told_and_the_others_kept(store: GraphStore, sample_run) -> None:
    runs = list(places(sample_run))
    store.save_run(runs[0])
    assert store.save_runs(runs) == (NAMES[0],)
    assert {run.name for run in store.runs()} == set(NAMES)
    assert store.save_runs(runs, replace=True) == ()
    for data in runs:
        assert same(store, data)
    assert store.info().pending == ()


@pytest.mark.slow
def test_copies_and_backups_carry_their_graphs_once(
    together: GraphStore, sample_run, tmp_path: Path
) -> None:
    data = list(places(sample_run))
    with EmbeddedStore(tmp_path / "copy") as copy:
        copied = list(copy_entries(together, copy, list(NAMES)))
        assert [(each.name, each.done) for each in copied] == [(n, Done.ADDED) for n in NAMES]
        assert all(same(copy, each) for each in data)
        assert {each.done for each in copy_entries(together, copy, list(NAMES))} == {Done.UNCHANGED}
    with (tmp_path / "backup").open("wb") as file:
        list(write_backup(together, file))
    with EmbeddedStore(tmp_path / "restored") as restored:
        restored.save_run(data[0])
        with open_backup(tmp_path / "backup") as backup:
            assert {each.name: each.done for each in restore(backup, restored)} == {
                name: Done.ADDED if name != NAMES[0] else Done.UNCHANGED for name in NAMES
            }
        assert all(same(restored, each) for each in data)
    assert len(shared(tmp_path / "copy")) == len(shared(tmp_path / "restored")) == 1


def shared(root: Path) -> list[Path]:
    return sorted((root / "shared").iterdir())


@pytest.mark.slow
def test_a_shared_database_goes_with_its_last_run(tmp_path: Path, sample_run) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_runs(places(sample_run))
        assert len(shared(tmp_path)) == 1, "that of three runs; the fourth has its own"
        store.rename(NAMES[1], "kept")
        for name in (NAMES[0], NAMES[2]):
            store.delete(name)
        assert len(shared(tmp_path)) == 1
        assert store.run_data("kept").states
        store.delete("kept")
        assert shared(tmp_path) == []


@pytest.mark.slow
def test_replacing_all_runs_of_a_shared_database_frees_it(tmp_path: Path, sample_run) -> None:
    runs = list(places(sample_run))[:3]
    with EmbeddedStore(tmp_path) as store:
        store.save_runs(runs)
        (before,) = shared(tmp_path)
        store.save_runs(runs, replace=True)
        (after,) = shared(tmp_path)
        assert before != after
        for data in runs:
            store.save_run(data, replace=True)
        assert shared(tmp_path) == []
        assert all(same(store, data) for data in runs)


def test_what_a_dead_writer_left_is_collected(tmp_path: Path, sample_run) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_runs(places(sample_run))
        (home,) = shared(tmp_path)
        # as if it died when the database was in place and no run was
        shutil.copytree(home, home.with_name("0123456789abcdef"))
        (text,) = store.info().pending
        assert "shared/0123456789abcdef" in text
        assert len(store.repair()) == 1
        assert shared(tmp_path) == [home]
        assert store.run_data(NAMES[0]).states


def test_damaged_shared_tables_are_named_for_each_of_its_runs(tmp_path: Path, sample_run) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_runs(places(sample_run))
        assert store.check() == ()
        (home,) = shared(tmp_path)
        flip(home / "tables" / "Metric.parquet")
        assert len(store.info().damaged) == 3
        assert len(store.repair(set_aside=True)) == 3
        assert [run.name for run in store.runs()] == [NAMES[3]]
        assert shared(tmp_path) == [home], "what is set aside may still be wanted"


def test_a_manifest_cannot_name_a_database_elsewhere(tmp_path: Path, sample_run) -> None:
    with EmbeddedStore(tmp_path) as store:
        store.save_runs(places(sample_run))
        path = tmp_path / "runs" / NAMES[0] / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest.pop("checksum", None)
        path.write_text(json.dumps({**manifest, "shared": "../../elsewhere"}))
        assert "names no shared tables" in store.info().damaged[0]
