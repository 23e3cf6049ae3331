"""Neo4j only: servers that are not there, wrong passwords, pending rows, URLs."""

from __future__ import annotations

import socket

import pytest

from benchmarks.scale.local_neo4j import LocalServer
from graphstore.contract import QueryParameters
from graphstore.errors import InputError, QueryError, StoreError
from graphstore.neo4j import Neo4jStore
from graphstore.open_store import open_store

needs_server = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j")]


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Neo4jStore(f"bolt://127.0.0.1:{port}", "neo4j", "secret") as store:
        with pytest.raises(
            StoreError, match=r"cannot reach Neo4j.*is the server running"
        ) as caught:
            store.runs()
        assert caught.value.retryable
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("neo4j://me:secret@host", "no user name or password"),
        ("bolt://", "no host"),
        ("bolt://host/a/b", "more than one database"),
    ],
)
def test_urls_that_are_refused(url: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "x")
    with pytest.raises(InputError, match=what) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_password_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEO4J_PASSWORD", raising=False)
    with pytest.raises(InputError, match="set NEO4J_PASSWORD"):
        open_store("bolt://localhost")


class TestWithServer:
    """Against the running server."""

    pytestmark = needs_server

    def test_a_wrong_password(self, neo4j_server: LocalServer) -> None:
        with (
            Neo4jStore(neo4j_server.url, "neo4j", "not this") as store,
            pytest.raises(StoreError, match="refuses the user name or password"),
        ):
            store.runs()

    def test_a_missing_database(self, neo4j_server: LocalServer) -> None:
        user, password = neo4j_server.user, neo4j_server.password
        with (
            Neo4jStore(neo4j_server.url, user, password, "nope") as store,
            pytest.raises(StoreError, match="no database 'nope'"),
        ):
            store.runs()

    def test_credentials_come_from_the_environment(
        self, neo4j_server: LocalServer, neo4j_store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
        with open_store(f"{neo4j_server.url}/neo4j") as store:
            assert store.runs() == []
            assert store.url == f"{neo4j_server.url}/neo4j"

    def test_an_equal_graph_is_written_once(self, neo4j_store: Neo4jStore, sample_run) -> None:
        count = "MATCH (o:Op) RETURN count(*)"
        neo4j_store.save_run(sample_run("first"))
        before = neo4j_store.query(count, QueryParameters()).rows
        neo4j_store.save_run(sample_run("second"))
        neo4j_store.save_graph(sample_run("x").golden, "mine")
        assert neo4j_store.query(count, QueryParameters()).rows == before

    def test_deleting_all_leaves_no_rows(self, neo4j_store: Neo4jStore, sample_run) -> None:
        neo4j_store.save_run(sample_run("first"))
        neo4j_store.save_run(sample_run("first"), replace=True)
        neo4j_store.save_graph(sample_run("x").golden, "mine")
        neo4j_store.delete("first")
        neo4j_store.delete("mine")
        rest = neo4j_store.query(
            "MATCH (n) RETURN DISTINCT labels(n)[0] AS label ORDER BY label", QueryParameters()
        )
        assert rest.rows == (("SchemaVersion",),)

    def test_the_server_refuses_what_slips_through(self, neo4j_store: Neo4jStore) -> None:
        """Even past our own check, a reading session cannot write."""
        with pytest.raises(QueryError, match=r"[Ww]rit"):
            neo4j_store._wire.read("CREATE (:Op {id: 'x'})", {})

    def test_a_newer_store_is_refused(
        self, neo4j_server: LocalServer, neo4j_store: Neo4jStore
    ) -> None:
        neo4j_store._wire.define("CREATE (:SchemaVersion {id: 'divergraph', version: 99})")
        user, password = neo4j_server.user, neo4j_server.password
        with (
            Neo4jStore(neo4j_server.url, user, password) as store,
            pytest.raises(StoreError, match="schema version 99"),
        ):
            store.runs()

    def test_a_store_opened_for_reading_is_not_written(
        self, neo4j_server: LocalServer, neo4j_store: Neo4jStore, sample_run
    ) -> None:
        neo4j_store.save_run(sample_run("first"))
        user, password = neo4j_server.user, neo4j_server.password
        with Neo4jStore(neo4j_server.url, user, password, read_only=True) as store:
            with pytest.raises(StoreError, match="for reading only"):
                store.delete("first")
            assert len(store.runs()) == 1
