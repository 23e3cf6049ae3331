"""A run is its tables: what the engine's database loses, or another one lacks, is made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from store_contents import everything

from graphstore.contract import RunData
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.renewal import renew
from graphstore.embedded.repairs import readable_entries
from graphstore.errors import StoreError
from graphstore.model import Side

Sample = Callable[..., RunData]
NAMES = ("first", "second", "third")


@pytest.fixture
def root(tmp_path: Path, sample_run: Sample) -> Path:
    """A store with the run ``first``, two in one database, and a graph."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        store.save_runs([sample_run("second"), sample_run("third")])
        store.save_graph(sample_run("x").device, "graph")
    return tmp_path / "store"


def answers(root: Path, *, read_only: bool = False) -> list[object]:
    """What is read of all entries, each by itself."""
    with EmbeddedStore(root, read_only=read_only) as store:
        questions = [store.named("first_diverging", name, {}).rows for name in NAMES]
        return [*map(store.run_data, NAMES), store.graph("graph"), questions]


def databases(root: Path) -> list[Path]:
    return [
        *root.glob("runs/*/*.lbug"),
        *root.glob("shared/*/*.lbug"),
        *root.glob("graphs/*/*.lbug"),
    ]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_any_program_reads_the_tables(root: Path, sample_run: Sample) -> None:
    data = sample_run("first")
    tables = {
        path.stem: pq.read_table(path) for path in (root / "runs/first/tables").glob("*.parquet")
    }
    ops = tables["Op"].to_pylist()
    assert len(ops) == len(data.golden.ops) + len(data.device.ops)
    name_of = {op["id"]: op["name"] for op in ops}
    fused = {(name_of[row["from"]], name_of[row["to"]]) for row in tables["FUSES"].to_pylist()}
    wanted = {"conv": {"conv", "block/bias", "block/relu"}, "pool": {"pool"}, "x": {"x"}}
    assert fused == {(device, name) for device, names in wanted.items() for name in names}
    assert len(tables["Metric"]) == len(data.comparisons)


def test_a_database_that_is_lost_is_made_again(root: Path) -> None:
    right = answers(root)
    own, shared, graph = databases(root)
    own.unlink()
    flip(shared)
    graph.write_bytes(b"LBUG")
    assert answers(root, read_only=True) == right
    assert not list(root.glob("scratch/read-*")), "it was only read"
    assert answers(root) == right
    with EmbeddedStore(root) as store:
        assert store.info().damaged == ()
        assert len(store.check()) == 4
        store.repair()
        assert (store.check(), store.repair()) == ((), ())
    assert answers(root) == right
    assert len(databases(root)) == 3, "those of their own, with new tables"


def test_lost_tables_are_written_anew(root: Path) -> None:
    right = answers(root)
    flip(root / "runs/first/tables/Op.parquet")
    (root / "graphs/graph/tables/Tensor.parquet").unlink()
    with EmbeddedStore(root) as store:
        assert store.run_data("first") == right[0], "the database is whole"
        assert [text.partition(":")[0] for text in store.check()] == [
            "the run 'first'",
            "the graph 'graph'",
        ]
        assert [text.partition(" anew")[0] for text in store.repair()] == [
            "wrote the run 'first'",
            "wrote the graph 'graph'",
        ]
        assert store.check() == ()
    for path in databases(root):
        path.unlink()
    assert answers(root) == right


def test_without_both_a_run_is_damaged(root: Path) -> None:
    flip(root / "runs/first/tables/Op.parquet")
    flip(root / "runs/first/graph.lbug")
    with EmbeddedStore(root) as store:
        with pytest.raises(StoreError, match=r"Op\.parquet: the run 'first' is damaged"):
            store.states("first")
        (damage,) = store.info().damaged
        assert damage.endswith("graph.lbug and Op.parquet is missing, cut or changed")
        assert store.check() == (damage,)


def test_a_store_taken_over_in_two_steps(older: Path) -> None:
    with EmbeddedStore(older) as store:
        right = [*map(store.run_data, NAMES), list(everything(store))]
        next(renew(store._folder, readable_entries(store._folder), store._databases.of))
        # whoever is stopped here goes on below
        store.rename("second", "late")
    with EmbeddedStore(older) as store:
        assert len([text for text in store.repair() if text.startswith("wrote")]) == 2
        assert store.repair() == ()
        for path in databases(older):
            path.unlink()
        store.rename("late", "second")
    with EmbeddedStore(older) as store:
        assert [*map(store.run_data, NAMES), list(everything(store))] == right


def test_a_run_that_was_replaced_meanwhile_stays(root: Path, sample_run: Sample) -> None:
    (root / "runs/first/tables/Op.parquet").unlink()
    with EmbeddedStore(root) as store, EmbeddedStore(root) as other:
        entries = readable_entries(store._folder)

        def opened_late(entry):
            database = store._databases.of(entry)
            other.save_run(sample_run("first", created="2031-01-01T00:00:00+00:00"), replace=True)
            return database

        list(renew(store._folder, entries, opened_late))
        assert store.run("first").created.startswith("2031")
        assert store.graph("first", Side.GOLDEN) == sample_run("first").golden
    folders = [path for path in (root / "runs/first").iterdir() if path.is_dir()]
    assert len(folders) == 1, "the tables of now"
