"""Constraints, indexes and the version of a Neo4j database."""

from __future__ import annotations

import pytest

from benchmarks.scale.local_neo4j import LocalServer
from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore, server_schema
from graphstore.neo4j.server_schema import NAME_PARTS, neo4j_ddl, neo4j_search_ddl
from graphstore.schema.tables import SCHEMA_VERSION

pytestmark = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")]

MARK = "MATCH (s:SchemaVersion {id: 'divergraph'}) RETURN s.version"


def opened(server: LocalServer, *, read_only: bool = False) -> Neo4jStore:
    return Neo4jStore(server.url, server.user, server.password, read_only=read_only)


def test_a_new_database_gets_all_indexes(neo4j_store: Neo4jStore, sample_run) -> None:
    neo4j_store._wire.define("DROP INDEX divergraph_op_names IF EXISTS")
    neo4j_store.save_run(sample_run("first"))
    there = {name for (name,) in neo4j_store._wire.read("SHOW INDEXES YIELD name", {}).rows}
    assert there >= {*neo4j_ddl(), *neo4j_search_ddl()}
    assert neo4j_store._wire.read(MARK, {}).rows == ((SCHEMA_VERSION,),)


def test_the_index_on_names_is_made_anew_for_many(
    neo4j_store: Neo4jStore, chain_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where as many ops come as are there; the import itself brings it back."""
    wire = neo4j_store._wire
    monkeypatch.setattr(server_schema, "_MANY_OPS", 10)
    neo4j_store.save_run(chain_run("first", "net", 20))
    assert NAME_PARTS in server_schema._names(wire)
    server_schema.set_names_aside(wire, 5)
    server_schema.set_names_aside(wire, 39)
    assert NAME_PARTS in server_schema._names(wire)
    server_schema.set_names_aside(wire, 40)
    assert NAME_PARTS not in server_schema._names(wire)
    neo4j_store.save_run(chain_run("many", "large", 30))
    assert NAME_PARTS in server_schema._names(wire)


def test_names_are_found_by_full_text(neo4j_store: Neo4jStore, sample_run) -> None:
    neo4j_store.save_run(sample_run("first"))
    neo4j_store._wire.define("CALL db.awaitIndexes(60)")
    neo4j_store._wire.define("CALL db.index.fulltext.awaitEventuallyConsistentIndexRefresh")
    found = neo4j_store._wire.read(
        "CALL db.index.fulltext.queryNodes('divergraph_op_names', 'relu') YIELD node "
        "RETURN node.name",
        {},
    )
    assert ("block/relu",) in found.rows


@pytest.mark.parametrize("version", [0, 99])
def test_a_store_of_another_version_is_refused(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run, version: int
) -> None:
    other = f"CREATE (:SchemaVersion {{id: 'divergraph', version: {version}}})"
    neo4j_store._wire.define(other)
    with opened(neo4j_server) as store:
        for ask in (lambda: store.save_run(sample_run("first")), store.repair, store.info):
            with pytest.raises(StoreError, match=f"version {version}, .* 2 and 3 only") as caught:
                ask()
            assert "use the divergraph that wrote it" in caught.value.hint
