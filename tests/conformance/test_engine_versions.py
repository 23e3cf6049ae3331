"""A run outlives the engine that wrote it: another version makes its own view, or says why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphstore.contract import QueryParameters
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.disk import file_crc32, read_json, write_json
from graphstore.errors import StoreError

COUNT = "MATCH (o:Op) RETURN count(*)"


def written_by_another(root: Path, form: int, *, tables: bool = False) -> Path:
    """Let the database of the run *x* say that another version of the engine wrote it; with no
    *tables*, as those of earlier versions."""
    database, manifest = (root / "runs" / "x" / name for name in ("graph.lbug", "manifest.json"))
    data = bytearray(database.read_bytes())
    own = int.from_bytes(data[4:12], "little")
    data[4:12] = (own + form).to_bytes(8, "little")
    database.write_bytes(data)
    facts = read_json(manifest) | {"engine": "ladybug 0.0", "crc32": file_crc32(database)}
    if not tables:
        shutil.rmtree(root / "runs" / "x" / facts.pop("tables")["folder"])
    manifest.unlink()
    write_json(manifest, facts)
    return database


@pytest.fixture
def root(tmp_path: Path, sample_run) -> Path:
    with EmbeddedStore(tmp_path) as store:
        store.save_run(sample_run("x"))
        assert store.info().other_engines == ()
    return tmp_path


def test_what_a_newer_engine_wrote_is_not_damaged(root: Path) -> None:
    written_by_another(root, +1)
    with EmbeddedStore(root) as store:
        for question in (store.states, lambda name: store.query(COUNT, QueryParameters(), name)):
            with pytest.raises(StoreError, match=r"ladybug 0\.0 wrote it") as error:
                question("x")
            assert "nothing is damaged" in error.value.hint
        assert store.info().damaged == ()
        assert "cannot read it" in store.info().other_engines[0]
        store.rename("x", "y")
        with pytest.raises(StoreError, match="wrote it"):
            store.query("MATCH (r:Run) RETURN r.name", QueryParameters(), "y")


def test_another_engine_reads_a_database_of_its_own(root: Path) -> None:
    with EmbeddedStore(root) as store:
        right = store.run_data("x")
    database = written_by_another(root, +1, tables=True)
    before = database.read_bytes()
    with EmbeddedStore(root) as store:
        assert store.run_data("x") == right
        assert "a database made of its tables" in store.info().other_engines[0]
        assert (store.repair(), store.check()) == ((), ())
        store.rename("x", "y")
        assert store.query("MATCH (r:Run) RETURN r.name", QueryParameters(), "y").rows == (("y",),)
    assert (root / "runs" / "y" / database.name).read_bytes() == before


def test_what_an_older_engine_wrote_is_read_from_a_copy(root: Path, monkeypatch) -> None:
    database = written_by_another(root, 0)
    monkeypatch.setattr("ladybug.storage_version", _own(database) + 1)
    before = file_crc32(database)
    with EmbeddedStore(root) as store:
        assert store.states("x")
        assert store.query(COUNT, QueryParameters(), "x").rows
        assert "a copy is read" in store.info().other_engines[0]
    (copy,) = (root / "scratch").glob("read-*/graph.lbug")
    assert copy.read_bytes() == database.read_bytes()
    assert file_crc32(database) == before


def _own(database: Path) -> int:
    return int.from_bytes(database.read_bytes()[4:12], "little")
