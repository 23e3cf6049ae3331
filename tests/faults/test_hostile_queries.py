"""Queries that only read and mean no good are answered or refused, and nothing else happens."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from full_run import sample_run
from hostile_queries import hostile_queries, quick_queries
from hostile_run import hostile_run

from graphstore.contract import GraphStore, QueryParameters
from graphstore.embedded.query_process import MEMORY_VARIABLE
from graphstore.errors import DivergraphError, QueryError
from graphstore.neo4j.local_server import running_on
from graphstore.neo4j.local_server.managed import status
from graphstore.open_store import open_store

SECONDS = 1.0
BUSY = 10.0
"""A busy machine is no failure."""
COUNTED = "MATCH (n) RETURN count(n) AS n"


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphStore]:
    monkeypatch.setenv(MEMORY_VARIABLE, "512")
    with open_store(tmp_path / "store") as store:
        yield filled(store)


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server as `divergraph neo4j start` starts it, with little memory."""
    from graphstore.neo4j.local_server import managed

    with socket.socket() as probe, pytest.MonkeyPatch.context() as patch:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        state = managed.start(port=port, heap="256m")
        assert state.url is not None
        yield state.url
        managed.stop_server()


def filled(store: GraphStore) -> GraphStore:
    store.save_run(sample_run("first"), replace=True)
    store.save_run(hostile_run(), replace=True)
    return store


def counted(store: GraphStore) -> tuple[tuple[object, ...], ...]:
    """Asked again where a server just then ends of what nobody waits for any more."""
    patient = QueryParameters(timeout=120.0)
    try:
        return store.query(COUNTED, patient).rows
    except QueryError as error:
        if "started again" not in str(error):
            raise
    return store.query(COUNTED, patient).rows


def names_of_runs(url: str) -> list[str]:
    until = time.monotonic() + 60 + BUSY
    while not status().running:  # the new process is there, and does not listen yet
        assert time.monotonic() < until
        time.sleep(0.05)
    with open_store(url) as store:
        return [run.name for run in store.runs()]


def check_all(store: GraphStore, queries: Mapping[str, str], deadly: int = 0) -> None:
    """Each ends in its time with rows or one sentence; the next question is answered."""
    there = counted(store)
    died = 0
    for name, text in queries.items():
        begin = time.monotonic()
        try:
            answer = store.query(text, QueryParameters(limit=10, timeout=SECONDS))
        except DivergraphError as error:
            said = str(error)
        else:
            said = ""
            assert len(answer.rows) <= 10, name
        assert "\n" not in said, (name, said)
        assert "internal" not in said.lower(), (name, said)
        assert time.monotonic() - begin < SECONDS + 1 + BUSY, (name, said)
        died += "started again" in said
        assert counted(store) == there, (name, said)
    assert died <= deadly


@pytest.mark.thorough
def test_the_embedded_store_lives(embedded: GraphStore) -> None:
    check_all(embedded, quick_queries())


@pytest.mark.exhaustive
def test_the_embedded_store_lives_through_all_of_them(embedded: GraphStore) -> None:
    assert len(hostile_queries()) >= 150
    check_all(embedded, hostile_queries())


@pytest.mark.exhaustive
@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-hostile")
@pytest.mark.timeout(900)
class TestManagedServer:
    def test_what_ends_the_server_is_told_and_others_find_it_back(self, managed: str) -> None:
        with open_store(managed) as store, open_store(managed) as other:
            filled(store)
            there = other.query(COUNTED, QueryParameters()).rows
            with pytest.raises(QueryError, match="memory") as told:
                store.query(
                    "RETURN reduce(s='a', x IN range(1,60) | s+s)", QueryParameters(timeout=20.0)
                )
            assert "divergraph neo4j start --heap" in told.value.hint
            with ThreadPoolExecutor(4) as newcomers:  # while it is being started again
                found = list(newcomers.map(names_of_runs, [managed] * 4))
            assert found == [["first", "hostile"]] * 4
            assert other.query(COUNTED, QueryParameters()).rows == there
            assert [run.name for run in store.runs()] == ["first", "hostile"]

    def test_what_runs_on_ends_with_the_server_and_others_find_it_back(
        self, managed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neo4j looks at no clock inside an expression."""
        monkeypatch.setattr(running_on, "RUN_ON_SECONDS", 1.0)
        endless = "RETURN reduce(s=0, x IN range(1, 10000000000) | s+x)"
        with open_store(managed) as store:
            there, first = counted(store), status().pid
            with pytest.raises(QueryError, match="took longer than 1 s"):
                store.query(endless, QueryParameters(timeout=1.0))
            until = time.monotonic() + 60 + BUSY
            while status().pid in (first, None):
                assert time.monotonic() < until
                assert store.query(COUNTED, QueryParameters(timeout=60.0)).rows == there
            assert store.query(COUNTED, QueryParameters(timeout=60.0)).rows == there

    def test_a_query_is_held_to_its_memory(self, managed: str) -> None:
        hungry = "UNWIND range(1, 30000000) AS x RETURN size(collect(x))"
        with open_store(managed) as store:
            with pytest.raises(QueryError, match="more memory than the server allows") as told:
                store.query(hungry, QueryParameters(timeout=60.0))
            assert "--heap" in told.value.hint

    def test_a_server_that_was_stopped_stays_so(self, managed: str) -> None:
        from graphstore.neo4j.address import parse_address
        from graphstore.neo4j.local_server import coming_back
        from graphstore.neo4j.local_server import managed as server

        note = server._folder() / "server.json"
        before = note.read_text()
        note.write_text(json.dumps({**json.loads(before), "should_run": False}))
        try:
            assert not coming_back.heap_of(parse_address(managed))
            assert not coming_back.comes_back(parse_address(managed))
        finally:
            note.write_text(before)

    @pytest.mark.exhaustive
    @pytest.mark.timeout(7200)
    def test_it_lives_through_all_of_them(self, managed: str) -> None:
        with open_store(managed) as store:
            check_all(filled(store), hostile_queries(), deadly=len(hostile_queries()))
