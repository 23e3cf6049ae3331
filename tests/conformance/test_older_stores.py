"""Embedded stores of an older schema, made as older programs made them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ladybug
import pytest

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import StoreError
from graphstore.open_store import open_store
from graphstore.schema.tables import FIGURE_COLUMNS, SCHEMA_VERSION, SPLIT_COLUMNS
from graphstore.transfer.copying import Done, copy_entry, whole_run_hash

SINCE_3 = (
    "DROP TABLE ABOUT",
    "DROP TABLE FOUND",
    "DROP TABLE Finding",
    "ALTER TABLE Run DROP suspects_json",
    "ALTER TABLE Metric DROP limit_rule",
    *(f"ALTER TABLE Metric DROP `{column.name}`" for column in SPLIT_COLUMNS + FIGURE_COLUMNS),
)
ROLES = "MATCH (m:Metric) RETURN count(*), count(m.role), count(m.bad)"
FINDINGS = "MATCH (:Run)-[:FOUND]->(f:Finding)-[:ABOUT]->(:Op) RETURN count(f)"


def made_older(root: Path, folder: Path) -> None:
    """Give an entry the form of schema 2."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    database = folder / manifest["database"]
    with ladybug.Database(database, max_db_size=2**30) as opened:
        connection = ladybug.Connection(opened)
        for statement in SINCE_3:
            connection.execute(statement)
        connection.execute("CHECKPOINT")
        connection.close()
    del manifest["schema"], manifest["sha256"]
    path.write_text(json.dumps({**manifest, "bytes": database.stat().st_size}))
    (root / "store.json").write_text('{"schema": 2}')


def of_schema_2(data: RunData) -> RunData:
    """*data* as a program of schema 2 knew it."""
    return replace(
        data,
        run=replace(data.run, analysis={}),
        comparisons=tuple(
            replace(item, figures=None, split=None, limit="") for item in data.comparisons
        ),
        suspects=(),
        findings=(),
    )


@pytest.fixture
def older(tmp_path: Path, sample_run: Callable[..., RunData]) -> Path:
    """A store of schema 2 with two runs, one of them renamed, and a graph."""
    root = tmp_path / "older"
    data = of_schema_2(sample_run("first"))
    with EmbeddedStore(root) as store:
        store.save_run(data)
        store.save_run(replace(data, run=replace(data.run, name="second")))
        store.save_graph(data.device, "graph")
        store.rename("second", "renamed")
    for folder in (*(root / "runs").iterdir(), *(root / "graphs").iterdir()):
        made_older(root, folder)
    return root


def files(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if path.is_file() and "scratch" not in path.parts]
    return {str(path): path.read_bytes() for path in found}


def everything_can_be_asked(store: GraphStore, data: RunData) -> None:
    assert whole_run_hash(store.run_data("first")) == whole_run_hash(data)
    assert store.graph("graph") == data.device
    assert [op.id for op in store.listed_ops("first")] == list(store.arrays("first").ids)
    for target in ("first", "renamed"):
        assert store.query(ROLES, QueryParameters(), target).rows == ((8, 0, 0),)
    assert store.query(ROLES, QueryParameters()).rows == ((16, 0, 0),)
    assert store.query(FINDINGS, QueryParameters()).rows == ((0,),)
    assert store.check() == ()


@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_store_is_read_and_left_as_it_is(
    older: Path, sample_run: Callable[..., RunData], read_only: bool
) -> None:
    before = files(older)
    with open_store(older, read_only=read_only) as store:
        assert store.info().schema == 2
        everything_can_be_asked(store, of_schema_2(sample_run("first")))
    assert files(older) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_older_store_that_cannot_be_written_is_read(
    older: Path, sample_run: Callable[..., RunData]
) -> None:
    older.chmod(0o500)
    with open_store(older) as store:
        everything_can_be_asked(store, of_schema_2(sample_run("first")))
    older.chmod(0o700)


def test_new_and_old_runs_in_one_store(older: Path, sample_run: Callable[..., RunData]) -> None:
    data = sample_run("new")
    with open_store(older) as store:
        store.save_run(data)
        assert store.info().schema == SCHEMA_VERSION
        assert whole_run_hash(store.run_data("new")) == whole_run_hash(data)
        assert store.query(ROLES, QueryParameters()).rows == ((24, 3, 3),)
        store.save_graph(data.device, "twin")  # shares the file of the old one
        assert store.graph("twin") == data.device
        store.delete("new")
        store.delete("twin")
        everything_can_be_asked(store, of_schema_2(sample_run("first")))
        assert store.repair() == ()


def test_an_old_run_is_copied(
    older: Path, tmp_path: Path, sample_run: Callable[..., RunData]
) -> None:
    with open_store(older) as store, open_store(tmp_path / "new") as target:
        assert copy_entry(store, target, "first").done is Done.ADDED
        assert copy_entry(store, target, "first").done is Done.UNCHANGED
        expected = of_schema_2(sample_run("first"))
        assert whole_run_hash(target.run_data("first")) == whole_run_hash(expected)


def test_the_first_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"schema": 1}')
    with pytest.raises(
        StoreError, match=r"schema version 1, this program reads those from 2 on \(.*restore"
    ):
        EmbeddedStore(tmp_path)


def test_an_entry_of_a_newer_program_is_refused(
    tmp_path: Path, sample_run: Callable[..., RunData]
) -> None:
    """As of a run folder that was copied into a store by hand."""
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("first"))
        path = tmp_path / "runs" / "first" / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
        with pytest.raises(StoreError, match=r"schema version 99.*install a newer") as caught:
            store.run("first")
        assert str(path) in str(caught.value)
