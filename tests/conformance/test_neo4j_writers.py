"""Neo4j with several writers: killed ones, silent ones, two at once. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.scale.local_neo4j import LocalServer
from graphstore.contract import RunData
from graphstore.errors import NameTakenError, StoreError
from graphstore.model import Side
from graphstore.neo4j import Neo4jStore
from graphstore.neo4j import writing as server_writing

pytestmark = [pytest.mark.neo4j, pytest.mark.xdist_group("neo4j"), pytest.mark.thorough]

MADE = Path(__file__).parents[1] / "made"
OPS = 60

CHILD = """
import os, sys
from graphstore.errors import DivergraphError
from graphstore.neo4j import Neo4jStore, bulk, connection, writing

made, url, user, name, graph, ops, batches, sent = sys.argv[1:]
sys.path.insert(0, made)
from shaped_runs import chain_run
bulk._ROWS = 20  # many transactions: more moments to die at
connection.CHANGE_SECONDS = 5.0

def halting(batches):
    global sent
    for number, batch in enumerate(batches):
        if str(number) == sent:
            sent = None  # once
            print("halted", flush=True)
            sys.stdin.readline()
        yield batch

if batches:
    whole = getattr(writing, batches)
    setattr(writing, batches, lambda *records: halting(whole(*records)))
with Neo4jStore(url, user, os.environ["SECRET"]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        store.save_run(chain_run(name, graph, int(ops)))
    except DivergraphError as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("saved", flush=True)
"""

MOMENTS = {
    "claimed": ("op_batches", 0),
    "ops": ("op_batches", 2),
    "edges": ("graph_batches", 2),
    "metrics": ("metric_batches", 2),
    "last rows": ("run_batches", 5),
}
"""What a writer halts at: batches of these, when so many of them were taken."""


@pytest.fixture
def writing(neo4j_server: LocalServer) -> Callable[..., subprocess.Popen[str]]:
    """Starts a process that saves a run as soon as it is told to, and may halt at a moment."""

    @contextmanager
    def start(
        name: str = "first", graph: str = "net", moment: str = ""
    ) -> Iterator[subprocess.Popen[str]]:
        arguments = [MADE, neo4j_server.url, neo4j_server.user, name, graph, OPS]
        arguments += MOMENTS.get(moment, ("", 0))
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, *map(str, arguments)],
            env={**os.environ, "SECRET": neo4j_server.password},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            try:
                yield child
            finally:
                child.kill()

    return start


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(
            moment, marks=[] if moment in ("claimed", "metrics") else pytest.mark.exhaustive
        )
        for moment in MOMENTS
    ],
)
def test_killed_and_repaired(
    neo4j_server: LocalServer,
    neo4j_store: Neo4jStore,
    writing,
    chain_run: Callable[..., RunData],
    moment: str,
) -> None:
    with writing(moment=moment) as child:
        go_until_it_halts(child)
        child.kill()
        child.wait()
    assert neo4j_store.runs() == []
    assert neo4j_store.graphs() == []
    assert "a half-written run 'first'" in neo4j_store.info().pending
    with Neo4jStore(
        neo4j_server.url, neo4j_server.user, neo4j_server.password, read_only=True
    ) as reader:
        assert reader.info().pending == neo4j_store.info().pending
    done = neo4j_store.repair()
    assert "removed the rows of a half-written run 'first'" in done
    assert neo4j_store.info().pending == ()
    assert labels(neo4j_store) == {"SchemaVersion"}
    assert neo4j_store.repair() == ()
    check_whole(neo4j_store, chain_run)


@pytest.mark.parametrize("moment", [pytest.param("ops", marks=pytest.mark.exhaustive), "metrics"])
def test_killed_and_imported_again(
    neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData], moment: str
) -> None:
    """The next import of the same clears what the dead one left."""
    with writing(moment=moment) as child:
        go_until_it_halts(child)
        child.kill()
        child.wait()
    check_whole(neo4j_store, chain_run)
    assert neo4j_store.info().pending == ()
    assert "PendingRun" not in labels(neo4j_store)


def test_killed_while_replacing_leaves_the_old_run(
    neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData]
) -> None:
    old = chain_run("other", "net", 30)
    neo4j_store.save_run(old)
    with writing(moment="metrics") as child:
        go_until_it_halts(child)
        child.kill()
        child.wait()
    neo4j_store.repair()
    assert neo4j_store.runs() == [old.run]
    assert neo4j_store.graph("other") == old.device


def test_a_living_writer_is_left_alone(
    neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData]
) -> None:
    with writing(moment="ops") as child:
        go_until_it_halts(child)
        assert neo4j_store.info().pending == ()
        assert neo4j_store.repair() == ()
        with pytest.raises(NameTakenError, match=rf"process {child.pid} on .* is writing"):
            neo4j_store.save_run(chain_run("first", "other net", 10))
        assert answer(child) == "saved\n"
    assert neo4j_store.graph("first") == chain_run("first", "net", OPS).device


def test_a_silent_writer_loses_its_claim_and_is_told(
    neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData]
) -> None:
    """A machine that slept: others took its rows away; it must not go on writing."""
    with writing(moment="ops") as child:
        go_until_it_halts(child)
        child.send_signal(signal.SIGSTOP)
        slept = "MATCH (w:Writer) SET w.beat = w.beat - 120000, w.host = 'another'"
        neo4j_store._wire.define(slept)
        assert neo4j_store.repair()
        neo4j_store.save_run(chain_run("first", "net", OPS))
        child.send_signal(signal.SIGCONT)
        said = answer(child)
    assert said.startswith("StoreError"), said
    assert "took this one for dead" in said
    assert neo4j_store.run_data("first") == chain_run("first", "net", OPS)
    assert count(neo4j_store, "MATCH (o:Op)") == 2 * OPS


class TestTwoAtOnce:
    """Two processes that save at the same time."""

    def test_the_same_name(self, neo4j_store: Neo4jStore, writing) -> None:
        with writing("first", "one") as a, writing("first", "two") as b:
            go(a, b)
            said = sorted([answer(a), answer(b)])
        assert said[1] == "saved\n"
        assert said[0].startswith("NameTakenError")
        assert [run.name for run in neo4j_store.runs()] == ["first"]
        neo4j_store.repair()
        assert count(neo4j_store, "MATCH (o:Op)") == 2 * OPS

    def test_the_same_graphs(
        self, neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData]
    ) -> None:
        with writing("first") as a, writing("second") as b:
            go(a, b)
            assert (answer(a), answer(b)) == ("saved\n", "saved\n")
        assert count(neo4j_store, "MATCH (o:Op)") == 2 * OPS, "shared graphs are one"
        for name in ("first", "second"):
            assert neo4j_store.run_data(name) == chain_run(name, "net", OPS)

    def test_different_graphs(
        self, neo4j_store: Neo4jStore, writing, chain_run: Callable[..., RunData]
    ) -> None:
        with writing("first", "one") as a, writing("second", "two") as b:
            go(a, b)
            assert (answer(a), answer(b)) == ("saved\n", "saved\n")
        for name, graph in (("first", "one"), ("second", "two")):
            assert neo4j_store.run_data(name) == chain_run(name, graph, OPS)


def test_a_run_replaced_while_it_is_read(
    neo4j_server: LocalServer, neo4j_store: Neo4jStore, chain_run: Callable[..., RunData]
) -> None:
    """A reader gets the old run, the new one, or is told; never a part of one."""
    old, new = chain_run("first", "net", 60), chain_run("first", "net", 90)
    neo4j_store.save_run(old)
    with Neo4jStore(neo4j_server.url, neo4j_server.user, neo4j_server.password) as reader:
        place = reader._place("first")
        neo4j_store.save_run(new, replace=True)
        with pytest.raises(StoreError, match="replaced or deleted while it was read") as caught:
            reader._rows(place, "run_states", {})
        assert caught.value.retryable
        assert len(reader.comparisons("first")) == len(new.comparisons)
    assert count(neo4j_store, "MATCH (o:Op)") == 180, "the old graphs are gone"


class TestNames:
    """Names, and graphs that several names share."""

    def test_an_equal_graph_again_is_nothing_new(self, neo4j_store: Neo4jStore, chain_run) -> None:
        graph = chain_run("x", "net", 20).device
        first = neo4j_store.save_graph(graph, "mine")
        assert neo4j_store.save_graph(graph, "mine") == first
        assert neo4j_store.save_graph(graph, "mine", replace=True) == first
        neo4j_store.save_graph(graph, "yours")
        assert count(neo4j_store, "MATCH (o:Op)") == 20
        with pytest.raises(NameTakenError, match="--replace"):
            neo4j_store.save_graph(chain_run("x", "net", 21).device, "mine")

    def test_rename(self, neo4j_store: Neo4jStore, chain_run) -> None:
        neo4j_store.save_run(chain_run("first", "net", 10))
        neo4j_store.save_graph(chain_run("x", "net", 20).device, "mine")
        neo4j_store.rename("first", "best")
        neo4j_store.rename("mine", "yours")
        assert [run.name for run in neo4j_store.runs()] == ["best"]
        assert [info.name for info in neo4j_store.graphs()] == ["yours"]
        assert neo4j_store.run_data("best") == chain_run("best", "net", 10)
        for name in ("best", "yours"):
            with pytest.raises(NameTakenError, match=f"named '{name}' already"):
                neo4j_store.rename("yours" if name == "best" else "best", name)
        neo4j_store.save_run(chain_run("first", "net", 12))
        assert len(neo4j_store.comparisons("first")) == 12
        assert len(neo4j_store.comparisons("best")) == 10

    def test_what_the_store_holds(self, neo4j_server, neo4j_store: Neo4jStore, chain_run) -> None:
        empty = neo4j_store.info()
        assert (empty.schema, empty.runs, empty.graphs, empty.ops) == (None, 0, 0, 0)
        neo4j_store.save_run(chain_run("first", "net", 10))
        neo4j_store.save_graph(chain_run("x", "net", 10).device, "mine")
        info = neo4j_store.info()
        assert (info.runs, info.graphs, info.ops, info.bytes) == (1, 1, 20, None)
        assert info.engine == f"Neo4j {neo4j_server.version}"

    def test_a_graph_stays_while_a_run_uses_it(self, neo4j_store: Neo4jStore, chain_run) -> None:
        data = chain_run("first", "net", 10)
        neo4j_store.save_graph(data.device, "mine")
        neo4j_store.save_run(data)
        neo4j_store.delete("mine")
        assert neo4j_store.graph("first") == data.device
        assert "Model" in labels(neo4j_store)
        neo4j_store.delete("first")
        assert labels(neo4j_store) == {"SchemaVersion"}

    def test_ops_with_more_edges_than_fit_a_transaction(
        self, neo4j_store: Neo4jStore, shaped_run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two hubs joined to all others are deleted edge by edge before they are."""
        monkeypatch.setattr(server_writing, "_DELETED", 50)
        ops = [f"op{number}" for number in range(200)]
        edges = [(hub, op) for hub in ops[:2] for op in ops[2:]]
        neo4j_store.save_run(shaped_run("hubs", edges, dict.fromkeys(ops, False)))
        neo4j_store.delete("hubs")
        assert labels(neo4j_store) == {"SchemaVersion"}


def go(*children: subprocess.Popen[str]) -> None:
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()


def go_until_it_halts(child: subprocess.Popen[str]) -> None:
    go(child)
    assert child.stdout is not None
    assert child.stdout.readline() == "halted\n"


def answer(child: subprocess.Popen[str]) -> str:
    """What it says in the end; where it halts, it goes on."""
    said, _ = child.communicate("\n", timeout=120)
    return said


def labels(store: Neo4jStore) -> set[object]:
    rows = store._wire.read("MATCH (n) UNWIND labels(n) AS label RETURN DISTINCT label", {}).rows
    return {label for (label,) in rows}


def count(store: Neo4jStore, pattern: str) -> object:
    return store._wire.read(f"{pattern} RETURN count(*)", {}).rows[0][0]


def check_whole(store: Neo4jStore, chain_run: Callable[..., RunData]) -> None:
    data = chain_run("first", "net", OPS)
    store.save_run(data)
    assert store.run_data("first") == data
    assert store.graph("first", Side.GOLDEN) == data.golden
    assert count(store, "MATCH (o:Op)") == 2 * OPS
    assert count(store, "MATCH (t:Tensor)") == 2 * OPS
    assert count(store, "MATCH (:Op)-[:FEEDS]->(:Op)") == 2 * (OPS - 1)
    assert count(store, "MATCH (:Op)-[:FUSES]->(:Op)") == OPS
    assert count(store, "MATCH (:Run)-[:COMPARED]->(:Metric)-[:OF]->(:Op)") == OPS
