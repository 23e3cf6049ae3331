"""A Neo4j server that stops, dies or freezes in the middle of an import or an answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from neo4j_files import RELEASE
from server_statements import run_alone

from benchmarks.scale.local_neo4j import LocalServer, local_server
from graphstore.contract import RunData
from graphstore.errors import StoreError
from graphstore.model import Side
from graphstore.neo4j import Neo4jStore, connection

pytestmark = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j-restarts"), pytest.mark.exhaustive]

MADE = Path(__file__).parents[1] / "made"
OPS = 400

CHILD = """
import os, sys
from graphstore.errors import DivergraphError
from graphstore.neo4j import Neo4jStore, bulk, connection

made, url, user, ops, patience = sys.argv[1:]
sys.path.insert(0, made)
from shaped_runs import chain_run
bulk._ROWS = 10  # many transactions
connection._WRITE_RETRY_SECONDS = connection._READ_RETRY_SECONDS = float(patience)
with Neo4jStore(url, user, os.environ["SECRET"]) as store:
    try:
        store.save_run(chain_run("first", "net", int(ops)))
    except DivergraphError as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("saved", flush=True)
"""
EDGES = "MATCH (:Op)-[f:FEEDS]->(:Op) WITH count(f) AS n WHERE n >= 50 RETURN n"


class Restarted:
    """One server that is started again, with the same data and port, where a test has ended it."""

    def __init__(self, start: Callable[[], AbstractContextManager[LocalServer]]) -> None:
        self._start = start
        self._now = ExitStack()
        self._running: LocalServer | None = None

    def running(self) -> LocalServer:
        """The living server: what a start costs is saved where nobody ended it."""
        if self._running is None or ended(self._running):
            self.end()
            self._running = self._now.enter_context(self._start())
        return self._running

    def end(self) -> None:
        self._now.close()
        self._running = None


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    folder = tmp_path_factory.mktemp("restarts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # how often it gives signs of life; after twice that a client takes it for frozen
    settings = {"server.bolt.connection_keep_alive": "3s"}
    server = Restarted(
        lambda: local_server(
            folder / "server", version=RELEASE, port=port, settings=settings, start_seconds=400
        )
    )
    yield server
    server.end()


@pytest.fixture
def server(restarted: Restarted) -> Restarted:
    """The same, with nothing in it."""
    with opened(restarted.running()) as store:
        run_alone(store._wire, "MATCH (n) DETACH DELETE n")
    return restarted


@contextmanager
def importing(running: LocalServer, patience: float) -> Iterator[subprocess.Popen[str]]:
    """A process that has written some of the rows of a run."""
    arguments = [MADE, running.url, running.user, OPS, patience]
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        env={**os.environ, "SECRET": running.password},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            with opened(running) as store:
                until = time.monotonic() + 120
                while not store._wire.read(EDGES, {}).rows:
                    assert child.poll() is None
                    assert time.monotonic() < until, "the moment did not come"
                    time.sleep(0.05)
            yield child
        finally:
            child.kill()


def opened(running: LocalServer) -> Neo4jStore:
    return Neo4jStore(running.url, running.user, running.password)


def end(running: LocalServer, by: signal.Signals) -> None:
    os.kill(running.pid, by)
    until = time.monotonic() + 120
    while not ended(running):
        assert time.monotonic() < until, "the server did not end"
        time.sleep(0.1)


def ended(running: LocalServer) -> bool:
    return Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def check_whole(store: Neo4jStore, data: RunData) -> None:
    assert store.run_data("first") == data
    assert store.graph("first", Side.GOLDEN) == data.golden
    assert store.info().pending == ()
    for pattern, rows in {
        "(:Op)": 2 * OPS,
        "(:Tensor)": 2 * OPS,
        "(:Op)-[:FEEDS]->(:Op)": 2 * (OPS - 1),
        "(:Op)-[:FUSES]->(:Op)": OPS,
        "(:Run)-[:COMPARED]->(:Metric)-[:OF]->(:Op)": OPS,
    }.items():
        found = store._wire.read(f"MATCH {pattern} RETURN count(*)", {}).rows
        assert found == ((rows,),), pattern


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
class TestMiddleOfAnImport:
    @pytest.mark.parametrize(
        "by",
        [
            pytest.param(signal.SIGTERM, id="stopped"),
            pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.exhaustive),
        ],
    )
    def test_it_goes_on_when_the_server_is_back(
        self, server: Restarted, chain_run: Callable[..., RunData], by: signal.Signals
    ) -> None:
        with importing(server.running(), patience=400) as child:
            end(server.running(), by)
            assert child.poll() is None
            back = server.running()
            said, _ = child.communicate(timeout=400)
        assert said == "saved\n"
        with opened(back) as store:
            check_whole(store, chain_run("first", "net", OPS))

    def test_it_says_so_when_the_server_stays_away(
        self, server: Restarted, chain_run: Callable[..., RunData]
    ) -> None:
        with importing(server.running(), patience=2) as child:
            end(server.running(), signal.SIGKILL)
            said, _ = child.communicate(timeout=120)
        assert said.startswith("StoreError")
        assert "cannot reach Neo4j" in said
        data = chain_run("first", "net", OPS)
        with opened(server.running()) as store:
            assert store.runs() == []
            assert store.graphs() == []
            assert "a half-written run 'first'" in store.info().pending
            assert store.repair()
            left = store._wire.read("MATCH (n) RETURN DISTINCT labels(n)[0]", {}).rows
            assert left == (("SchemaVersion",),)
            store.save_run(data)
            check_whole(store, data)


def freeze(process: int) -> None:
    """Stop it, and wait until all its threads stand: on a busy machine one may answer yet."""
    os.kill(process, signal.SIGSTOP)
    until = time.monotonic() + 120
    while not all(map(stands, Path(f"/proc/{process}/task").iterdir())):
        assert time.monotonic() < until, "it never stands"
        time.sleep(0.01)


def stands(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except FileNotFoundError:  # it ended
        return True


def test_a_reader_gives_up_on_a_frozen_server(
    server: Restarted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_READ_RETRY_SECONDS", 1.0)
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 2.0)
    running = server.running()
    with opened(running) as store:
        assert store.runs() == []
        freeze(running.pid)
        try:
            with pytest.raises(StoreError, match="there is no answer") as caught:
                store.runs()
        finally:
            os.kill(running.pid, signal.SIGCONT)
        assert caught.value.retryable
        assert store.runs() == []
