"""Neo4j databases in older and newer forms, made as older programs made them."""

from __future__ import annotations

import dataclasses

import pytest

from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore, migrations
from graphstore.neo4j.local_server.temporary import LocalServer
from graphstore.schema.statements import NAME_PARTS, neo4j_ddl, neo4j_search_ddl
from graphstore.schema.tables import NEO4J_VERSION
from graphstore.transfer.copying import whole_run_hash

pytestmark = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")]

FORM_1 = "CREATE (:Store {id: 'divergraph', schema: 1})"
MARKS = (
    "OPTIONAL MATCH (s:SchemaVersion {id: 'divergraph'}) OPTIONAL MATCH (o:Store) "
    "RETURN s.version, count(o)"
)


def opened(server: LocalServer, *, read_only: bool = False) -> Neo4jStore:
    return Neo4jStore(server.url, server.user, server.password, read_only=read_only)


def test_a_new_database_gets_all_indexes(neo4j_store: Neo4jStore, sample_run) -> None:
    neo4j_store._wire.define("DROP INDEX divergraph_op_names IF EXISTS")
    neo4j_store.save_run(sample_run("first"))
    there = {name for (name,) in neo4j_store._wire.read("SHOW INDEXES YIELD name", {}).rows}
    assert there >= {*neo4j_ddl(), *neo4j_search_ddl()}
    assert neo4j_store._wire.read(MARKS, {}).rows == ((NEO4J_VERSION, 0),)


def test_the_index_on_names_is_made_anew_for_many(
    neo4j_store: Neo4jStore, chain_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where as many ops come as are there; the import itself brings it back."""
    wire = neo4j_store._wire
    monkeypatch.setattr(migrations, "_MANY_OPS", 10)
    neo4j_store.save_run(chain_run("first", "net", 20))
    assert NAME_PARTS in migrations._names(wire)
    migrations.set_names_aside(wire, 5)
    migrations.set_names_aside(wire, 39)
    assert NAME_PARTS in migrations._names(wire)
    migrations.set_names_aside(wire, 40)
    assert NAME_PARTS not in migrations._names(wire)
    neo4j_store.save_run(chain_run("many", "large", 30))
    assert NAME_PARTS in migrations._names(wire)


def test_names_are_found_by_full_text(neo4j_store: Neo4jStore, sample_run) -> None:
    neo4j_store.save_run(sample_run("first"))
    neo4j_store._wire.write_alone("CALL db.awaitIndexes(60)", {})
    neo4j_store._wire.write_alone(
        "CALL db.index.fulltext.awaitEventuallyConsistentIndexRefresh", {}
    )
    found = neo4j_store._wire.read(
        "CALL db.index.fulltext.queryNodes('divergraph_op_names', 'relu') YIELD node "
        "RETURN node.name",
        {},
    )
    assert ("block/relu",) in found.rows


def test_the_mark_of_form_1_is_replaced(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
) -> None:
    neo4j_store._wire.write([(FORM_1, {})])
    with opened(neo4j_server, read_only=True) as store:
        assert store.runs() == []
    with opened(neo4j_server) as store:
        store.save_run(sample_run("first"))
        assert store._wire.read(MARKS, {}).rows == ((NEO4J_VERSION, 0),)
        assert store.info().schema == NEO4J_VERSION


def test_rows_of_form_2_are_read_and_joined_by_new_ones(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
) -> None:
    """Form 3 has more properties and the label Finding."""
    new = sample_run("new")
    plain = [
        dataclasses.replace(item, figures=None, split=None, limit="") for item in new.comparisons
    ]
    old = dataclasses.replace(new, comparisons=tuple(plain), suspects=(), findings=())
    old = dataclasses.replace(old, run=dataclasses.replace(old.run, name="old", analysis={}))
    neo4j_store.save_run(old)
    neo4j_store._wire.write([("MATCH (s:SchemaVersion) SET s.version = 2", {})])
    neo4j_store._wire.define("DROP CONSTRAINT divergraph_finding_id")
    neo4j_store._wire.define("DROP INDEX divergraph_finding_run_seq")
    with opened(neo4j_server, read_only=True) as store:
        assert whole_run_hash(store.run_data("old")) == whole_run_hash(old)
        assert store.info().schema == 2
    with opened(neo4j_server) as store:
        store.save_run(new)
        assert store._wire.read(MARKS, {}).rows == ((NEO4J_VERSION, 0),)
        assert migrations._names(store._wire) >= {*neo4j_ddl()}
        for data in (old, new):
            assert whole_run_hash(store.run_data(data.run.name)) == whole_run_hash(data)


@pytest.mark.parametrize("read_only", [True, False])
def test_rows_of_form_1_are_refused_and_kept(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run, read_only: bool
) -> None:
    old = "CREATE (:Run {id: 'old', name: 'old'}), (:Graph {id: 'g'}), (:Op {id: 'g/x'})"
    neo4j_store._wire.write([(FORM_1, {}), (old, {})])
    with opened(neo4j_server, read_only=read_only) as store:
        for asked in (store.runs, store.info, lambda: store.graph("old")):
            with pytest.raises(StoreError, match="schema version 1, whose rows") as caught:
                asked()
            assert "divergraph restore" in caught.value.hint
    if not read_only:
        with opened(neo4j_server) as store, pytest.raises(StoreError, match="schema version 1"):
            store.save_run(sample_run("first"))
    assert neo4j_store._wire.read("MATCH (n:Run|Graph|Op) RETURN count(*)", {}).rows == ((3,),)


def test_a_newer_form_is_refused(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
) -> None:
    newer = "CREATE (:SchemaVersion {id: 'divergraph', version: 99})"
    neo4j_store._wire.write([(newer, {})])
    with opened(neo4j_server) as store:
        for write in (lambda: store.save_run(sample_run("first")), store.repair, store.info):
            with pytest.raises(StoreError, match="schema version 99") as caught:
                write()
            assert "newer divergraph" in caught.value.hint
