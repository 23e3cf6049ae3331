"""A run is its tables: databases of the engine are views, made of them when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from store_contents import everything, flip

from graphstore.contract import QueryParameters, RunData
from graphstore.cypher.parsed_query import tables_named
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.repairs import readable_entries, renew
from graphstore.errors import StoreError

Sample = Callable[..., RunData]
NAMES = ("first", "second", "third")


@pytest.fixture
def root(tmp_path: Path, sample_run: Sample) -> Path:
    """A store with the run ``first``, two that share tables, and a graph."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        store.save_runs([sample_run("second"), sample_run("third")])
        store.save_graph(sample_run("x").device, "graph")
    return tmp_path / "store"


def answers(root: Path, *, read_only: bool = False) -> list[object]:
    """What is read of all entries, each by itself."""
    with EmbeddedStore(root, read_only=read_only) as store:
        questions = [store.named("first_diverging", name, {}).rows for name in NAMES]
        count = "MATCH (o:Op) RETURN count(*)"
        names = ("first", "second", "graph")
        questions += [store.query(count, QueryParameters(), name).rows for name in names]
        return [*map(store.run_data, NAMES), store.graph("graph"), questions]


def views(root: Path) -> list[Path]:
    return sorted(root.glob("scratch/*/graph.lbug"))


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


def test_a_view_that_is_lost_is_made_again(root: Path) -> None:
    assert answers(root, read_only=True) == answers(root), "made elsewhere if it is only read"
    right, (one, two, three) = answers(root), views(root)
    one.unlink()
    flip(two)
    three.write_bytes(b"LBUG")
    assert answers(root, read_only=True) == right
    assert not one.exists(), "it was only read"
    assert answers(root) == right
    with EmbeddedStore(root) as store:
        assert (store.info().damaged, store.check(), store.repair()) == ((), (), ())
        assert len(views(root)) == 3
        store.delete("first")
        assert len(views(root)) == 2, "nothing of a run stays"


def test_another_engine_makes_a_view_of_its_own(root: Path, monkeypatch) -> None:
    right, before = answers(root), views(root)
    monkeypatch.setattr("graphstore.embedded.views.engine_name", lambda: "ladybug 99")
    assert answers(root) == right
    assert {*views(root)}.isdisjoint(before)
    with EmbeddedStore(root) as store:
        info = store.info()
        assert (info.other_engines, info.views) == ((), (f"ladybug 99: {len(before)}",))


def test_without_its_tables_a_run_is_damaged(root: Path) -> None:
    answers(root)
    flip(root / "runs/first/tables/Op.parquet")
    with EmbeddedStore(root) as store:
        with pytest.raises(StoreError, match=r"Op\.parquet: the run 'first' is damaged"):
            store.states("first")
        (damage,) = store.info().damaged
        assert damage.endswith("Op.parquet is missing, cut or changed")
        assert store.check() == (damage,)


def test_a_store_taken_over_in_two_steps(older: Path) -> None:
    with EmbeddedStore(older) as store:
        right = [*map(store.run_data, NAMES), list(everything(store))]
        next(renew(store._folder, readable_entries(store._folder), store._views))
        # whoever is stopped here goes on below
        store.rename("second", "late")
    with EmbeddedStore(older) as store:
        assert len([text for text in store.repair() if text.startswith("wrote")]) == 2
        assert store.repair() == ()
        assert not list(older.rglob("runs/*/*.lbug")) + list(older.rglob("shared/*/*.lbug"))
        store.rename("late", "second")
    with EmbeddedStore(older) as store:
        assert [*map(store.run_data, NAMES), list(everything(store))] == right


def test_a_run_that_was_replaced_meanwhile_is_asked_anew(
    root: Path, sample_run: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedStore(root) as store, EmbeddedStore(root) as other:
        tables = store._views.tables

        def replaced_meanwhile(entry):
            monkeypatch.undo()
            other.save_run(sample_run("first", created="2031-01-01T00:00:00+00:00"), replace=True)
            return tables(entry)

        monkeypatch.setattr(store._views, "tables", replaced_meanwhile)
        assert [*store.states("first").values()] == [*other.states("first").values()]
    folders = [path for path in (root / "runs/first").iterdir() if path.is_dir()]
    assert len(folders) == 1, "the tables of now"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("MATCH (o:Op) RETURN count(*)", {"Op"}),
        ("MATCH (a)-[f:FEEDS]->(b:Op) RETURN toLower(b.name) LIMIT 3", None),
        ("MATCH (m:Metric)-[:OF]->(o:Op {type: 'Conv'}) RETURN o.name, m", {"Metric", "OF", "Op"}),
        ("MATCH (o:Op) WHERE NOT EXISTS { MATCH (o)-[:FUSES]->(:Op) } RETURN o", {"Op", "FUSES"}),
        ("MATCH (n) RETURN count(n)", None),
        ("MATCH (o:Op)-[:FEEDS*1..3]->(p:Op) RETURN p", None),
        ("UNWIND [1, 2] AS x RETURN x", None),
    ],
)
def test_the_tables_that_a_query_can_see(text: str, tables: set[str] | None) -> None:
    assert tables_named(text) == tables


def test_a_view_of_a_large_run_has_the_tables_a_query_names(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphstore.embedded.views._LARGE", 0)
    text = "MATCH (m:Metric)-[:OF]->(o:Op) RETURN m.port, o.name, m.state ORDER BY m.seq"
    with EmbeddedStore(root) as store:
        few = store.query(text, QueryParameters(), "first")
        (view,) = views(root)
        assert "+" in view.parent.name
        whole = store.query(text.replace("o:Op", "o"), QueryParameters(), "first")
        assert whole.rows == few.rows
        # The parts of a union are run side by side, in no promised order.
        twice = store.query(f"{text} UNION ALL {text}", QueryParameters(), "first")
        assert sorted(twice.rows) == sorted(few.rows * 2)
        assert len(few.rows) == len(store.comparisons("first"))
        assert store.info().pending == ()
        store.delete("first")
    assert views(root) == []
