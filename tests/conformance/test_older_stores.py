"""Stores of schema version 2 are read, and get what they lack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ladybug
import pyarrow as pa
import pytest
from store_contents import everything, flip

from benchmarks.scale.local_neo4j import LocalServer
from graphstore.contract import QueryParameters
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.disk import file_facts, read_json, write_json
from graphstore.errors import StoreError
from graphstore.model import Side
from graphstore.neo4j import Neo4jStore
from graphstore.schema.codec import attrs_text

NEW_RELS = "HAS_GRAPH|HAS_OP|PRODUCES|INPUT_OF|OF_TENSOR|OF_DEVICE|OF_GOLDEN|OF_GRAPH"


def test_an_older_store_says_what_a_new_one_does(older: Path, tmp_path: Path, sample_run) -> None:
    names = ("first", "second", "third")
    with EmbeddedStore(older) as store, EmbeddedStore(tmp_path / "new") as new:
        new.save_run(sample_run("first"))
        new.save_runs([sample_run("second"), sample_run("third")])
        assert [run.name for run in store.runs()] == list(names)
        for name in names:
            for side in Side:
                assert store.graph(name, side) == new.graph(name, side)
            assert list(everything(store, name)) == list(everything(new, name))
            answers = [one.named("first_diverging", name, {}) for one in (store, new)]
            assert answers[0] == answers[1]
        assert list(everything(store)) == list(everything(new))
        assert json.loads((older / "store.json").read_text())["schema"] == 2  # it was only read
        store.save_run(sample_run("fourth"))
        new.save_run(sample_run("fourth"))
        assert list(everything(store)) == list(everything(new))
    assert json.loads((older / "store.json").read_text())["schema"] == 3


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_a_server_gets_what_it_lacks(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
) -> None:
    neo4j_store.save_run(sample_run("first"))
    neo4j_store.save_graph(sample_run("x").golden, "imported")
    new = list(everything(neo4j_store))
    define = neo4j_store._wire.define
    define(f"MATCH ()-[r:{NEW_RELS}]->() DELETE r")
    define("MATCH (t:Tensor) REMOVE t.dims")
    data = sample_run("first")
    texts = [
        [graph.kind.value, op.id, attrs_text(op.attrs)]
        for graph in (data.golden, data.device)
        for op in graph.ops
    ]
    as_text = "UNWIND $rows AS r MATCH (o:Op {kind: r[0], name: r[1]}) SET o.attrs_json = r[2]"
    neo4j_store._wire.change(lambda run: run(as_text, rows=texts))
    define("MATCH (o:Op) REMOVE o.kind, o.attributes, o.rank, o.ranks")
    define("MATCH (s:SchemaVersion) SET s.version = 2")

    with Neo4jStore(neo4j_server.url, neo4j_server.user, neo4j_server.password) as store:
        old = store.query("MATCH (g:Graph)-[:HAS_OP]->(o:Op) RETURN o.id", QueryParameters())
        assert not old.rows
        assert "store repair" in old.notes[0]
        assert store.graph("first", Side.DEVICE) == sample_run("first").device
        store.repair()
        assert list(everything(store)) == new
        assert store.info().schema == 3
        assert not store.query("RETURN 1", QueryParameters()).notes


def test_a_packed_database_of_several_runs_is_read(older: Path) -> None:
    """As earlier versions kept large ones."""
    (home,) = (older / "shared").iterdir()
    with EmbeddedStore(older) as store:
        right = [store.run_data(name) for name in ("second", "third")]
    shutil.rmtree(older / "scratch")
    packed = home / "graph.lbug.zst"
    with pa.CompressedOutputStream(str(packed), "zstd") as out:
        out.write((home / "graph.lbug").read_bytes())
    (home / "graph.lbug").unlink()
    facts = {"database": packed.name, **file_facts(packed)}
    for manifest in (home, older / "runs" / "second", older / "runs" / "third"):
        path = manifest / "manifest.json"
        write_json(path, read_json(path) | facts)
    with EmbeddedStore(older) as store:
        assert [store.run_data(name) for name in ("second", "third")] == right
        flip(packed)
        shutil.rmtree(older / "scratch")
    with EmbeddedStore(older) as store, pytest.raises(StoreError, match="'second' is damaged"):
        store.run_data("second")


def test_what_another_engine_wrote(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer one's is refused with its version, an older one's read from a copy."""
    own = int(ladybug.storage_version)
    path = older / "runs" / "first" / "manifest.json"
    write_json(path, read_json(path) | {"engine": "ladybug 0.0"})
    monkeypatch.setattr("ladybug.storage_version", own - 1)
    with EmbeddedStore(older) as store:
        with pytest.raises(StoreError, match=r"ladybug 0\.0 wrote it") as error:
            store.states("first")
        assert "nothing is damaged" in error.value.hint
        assert store.info().damaged == ()
        assert "cannot read it" in store.info().other_engines[0]
        assert [text for text in store.repair() if "'first'" in text] == []
    monkeypatch.setattr("ladybug.storage_version", own)
    before = (older / "runs" / "first" / "graph.lbug").read_bytes()
    with EmbeddedStore(older) as store:
        assert store.states("first")
        assert "a copy is read" in store.info().other_engines[0]
    assert (older / "runs" / "first" / "graph.lbug").read_bytes() == before
