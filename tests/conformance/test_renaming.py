"""Renaming is one step, and everything answers with the new name afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError, NameTakenError, StoreError, UnknownNameError
from graphstore.model import Side

pytestmark = pytest.mark.thorough

Sample = Callable[..., RunData]
NAMES = "MATCH (r:Run) RETURN r.name ORDER BY r.name"


def asked(store: GraphStore, cypher: str, target: str | None = None) -> list[object]:
    return [row[0] for row in store.query(cypher, QueryParameters(), target).rows]


def test_a_renamed_run_is_the_same_run_under_another_name(
    store: GraphStore, sample_run: Sample
) -> None:
    data = sample_run("old")
    store.save_run(data)
    store.rename("old", "new")
    assert [run.name for run in store.runs()] == ["new"]
    assert store.run("new").name == "new"
    assert store.run("new").created == data.run.created
    assert store.graph("new") == data.device
    assert store.graph("new", Side.GOLDEN) == data.golden
    assert store.states("new") == dict(data.states)
    assert store.origins("new") == list(data.origins)
    assert store.links("new") == list(data.links)
    assert len(store.comparisons("new")) == len(data.comparisons)
    assert store.run_data("new").run == store.run("new")
    for gone in (store.run, store.graph, store.delete):
        with pytest.raises(UnknownNameError):
            gone("old")


@pytest.mark.slow
def test_cypher_answers_with_the_new_name(store: GraphStore, sample_run: Sample) -> None:
    store.save_run(sample_run("old"))
    store.rename("old", "new")
    assert asked(store, NAMES) == asked(store, NAMES, "new") == ["new"]
    store.save_run(sample_run("other"))
    store.save_graph(sample_run("x").device, "graph")
    store.rename("graph", "renamed graph")
    assert asked(store, NAMES) == ["new", "other"]
    imports = "MATCH (i:Import) RETURN i.name"
    assert asked(store, imports) == ["renamed graph"]
    found = store.named("runs", "new", {})
    assert "new" in [row[found.columns.index("run")] for row in found.rows]
    metrics = "MATCH (m:Metric {run: $run}) RETURN count(*)"
    assert asked(store, metrics, "new") == [8], "$run is the key of the run whatever its name"


@pytest.mark.slow
def test_an_old_name_is_free_again(store: GraphStore, sample_run: Sample) -> None:
    store.save_run(sample_run("a"))
    store.rename("a", "b")
    store.save_run(sample_run("a", "2026-03-03T00:00:00Z"))
    assert sorted(run.name for run in store.runs()) == ["a", "b"]
    assert asked(store, NAMES) == ["a", "b"]
    store.rename("a", "c")
    store.rename("b", "a")
    assert store.run("a").created == sample_run("x").run.created
    assert store.run("c").created == "2026-03-03T00:00:00Z"
    assert asked(store, NAMES) == ["a", "c"]
    store.delete("a")
    assert len(store.comparisons("c")) == 8


def test_a_renamed_graph(store: GraphStore, sample_run: Sample) -> None:
    graph = sample_run("x").device
    info = store.save_graph(graph, "old")
    store.rename("old", "new")
    (found,) = store.graphs()
    assert (found.name, found.created, found.id) == ("new", info.created, info.id)
    assert store.graph("new") == graph
    assert asked(store, "MATCH (i:Import {name: 'new'}) RETURN i.created", "new") == [info.created]


@pytest.mark.slow
def test_names_in_use_are_refused(store: GraphStore, sample_run: Sample) -> None:
    store.save_run(sample_run("run"))
    store.save_run(sample_run("other"))
    store.save_graph(sample_run("x").device, "graph")
    for name, taken in (("run", "other"), ("run", "graph"), ("graph", "run")):
        with pytest.raises(NameTakenError, match=taken):
            store.rename(name, taken)
    with pytest.raises(InputError):
        store.rename("run", "../run")
    with pytest.raises(UnknownNameError, match="graph"):
        store.rename("grahp", "x")
    store.rename("run", "run")
    assert sorted(run.name for run in store.runs()) == ["other", "run"]


@pytest.mark.slow
def test_a_renamed_run_can_be_replaced(store: GraphStore, sample_run: Sample) -> None:
    store.save_run(sample_run("old"))
    store.rename("old", "new")
    store.save_run(sample_run("new", "2026-04-04T00:00:00Z"), replace=True)
    assert [run.created for run in store.runs()] == ["2026-04-04T00:00:00Z"]
    assert asked(store, NAMES) == ["new"]


def test_renaming_writes_nothing_anew(tmp_path: Path, sample_run: Sample) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("old"))
        before = _files(root / "runs" / "old")
        store.rename("old", "new")
        assert _files(root / "runs" / "new") == before
        assert asked(store, NAMES, "new") == ["new"]
        assert _files(root / "runs" / "new") == before, "asking does not write it either"


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_a_renamed_run_in_a_store_opened_for_reading(tmp_path: Path, sample_run: Sample) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as store:
        store.save_run(sample_run("old"))
        store.rename("old", "new")
    with EmbeddedStore(root, read_only=True) as store:
        assert asked(store, NAMES) == ["new"]
        with pytest.raises(StoreError, match="for reading only"):
            store.rename("new", "newer")
    assert {path.name for path in root.iterdir()} == {"store.json", "runs", "graphs"}


def test_a_reader_keeps_reading_while_another_renames(tmp_path: Path, sample_run: Sample) -> None:
    root = tmp_path / "store"
    with EmbeddedStore(root) as reader, EmbeddedStore(root) as writer:
        writer.save_run(sample_run("old"))
        assert len(reader.comparisons("old")) == 8
        writer.rename("old", "new")
        with pytest.raises(UnknownNameError):
            reader.comparisons("old")
        assert len(reader.comparisons("new")) == 8
        writer.save_run(sample_run("old", "2026-05-05T00:00:00Z"))
        assert reader.run("old").created == "2026-05-05T00:00:00Z"
        assert reader.states("old") == reader.states("new")
