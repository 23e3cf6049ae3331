"""Processes killed at random moments: what was kept stays, what was half-written is gone."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from neo4j_files import RELEASE
from shaped_runs import chain_run

from benchmarks.scale.local_neo4j import LocalServer, local_server
from graphstore.neo4j import Neo4jStore

pytestmark = pytest.mark.thorough

MADE = Path(__file__).parents[1] / "made"
OPS = 200

EMBEDDED = """
import os, random, signal, sys, time, traceback
from pathlib import Path
import ladybug, pyarrow
from graphstore.embedded import EmbeddedStore
sys.path.insert(0, sys.argv[1])
import full_run as samples
root, kills = Path(sys.argv[2]), int(sys.argv[3])
moments = random.Random(kills)

def forked(action):
    process = os.fork()
    if process == 0:
        try:
            action()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return process

def write_for_ever():
    number = 0
    while True:
        with EmbeddedStore(root) as store:
            store.save_run(samples.sample_run(f"run{number % 3}"), replace=True)
            if any(run.name == "moved" for run in store.runs()):
                store.delete("moved")
            else:
                store.rename(f"run{number % 3}", "moved")
        number += 1

def check():
    with EmbeddedStore(root) as store:
        for run in store.runs():
            data = store.run_data(run.name)
            assert len(data.comparisons) == 8
            assert data.device == samples.device_graph()
        store.repair()
        if store.info().pending:  # what the dead one had started ends a moment after it
            time.sleep(1.0)
            store.repair()
        assert store.info().pending == store.check() == ()

with EmbeddedStore(root.with_name("warm")) as store:
    store.save_run(samples.sample_run("run0"))  # all is loaded once, here
    store.run_data("run0")
    begin = time.monotonic()
    store.save_run(samples.sample_run("run1"))
    took = time.monotonic() - begin
for _ in range(kills):
    writer = forked(write_for_ever)
    time.sleep(moments.uniform(0.0, 5 * took))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    assert os.waitpid(forked(check), 0)[1] == 0
assert {path.name for path in root.iterdir()} <= {"store.json", "runs", "graphs", "scratch"}
with EmbeddedStore(root) as store:
    print(len(store.runs()))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_a_killed_writer_of_the_embedded_store_leaves_whole_runs(
    tmp_path: Path, kills: int
) -> None:
    command = [sys.executable, "-c", EMBEDDED, str(MADE), str(tmp_path / "store"), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert int(done.stdout) >= 1


ARRAYS = """
import os, random, signal, sys, time
from pathlib import Path
from graphstore.embedded import EmbeddedStore
from graphstore.model import Side
sys.path.insert(0, sys.argv[1])
from shaped_runs import chain_run
root, kills = Path(sys.argv[2]), int(sys.argv[3])
moments = random.Random(kills)

def asked():
    with EmbeddedStore(root) as store:
        found = [store.arrays("big", side) for side in Side]
    return [(each.ids, each.successor_ops.tolist(), each.number) for each in found]

def kept():
    return [*root.glob("runs/*/arrays-*"), *root.glob(".writing-*")]

with EmbeddedStore(root) as store:
    store.save_run(chain_run("big", "net", 12_000))
right, killed = asked(), 0
for _ in range(kills):
    for path in kept():
        path.unlink()
    reader = os.fork()
    if reader == 0:
        asked()
        os._exit(0)
    while not kept() and os.waitpid(reader, os.WNOHANG) == (0, 0):
        pass
    time.sleep(moments.uniform(0.0, 0.01))
    os.kill(reader, signal.SIGKILL)
    killed += os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == -signal.SIGKILL
    assert asked() == right
    with EmbeddedStore(root) as store:
        store.repair()
        assert store.info().pending == store.check() == ()
print(killed)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_a_killed_reader_leaves_no_half_arrays(tmp_path: Path, kills: int) -> None:
    """It is killed while it writes down what it read of a large graph, for the next."""
    command = [sys.executable, "-c", ARRAYS, str(MADE), str(tmp_path / "store"), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert int(done.stdout) >= kills / 2


CLIENT = """
import os, sys
from graphstore.neo4j import Neo4jStore, bulk

made, url, user, ops = sys.argv[1:]
sys.path.insert(0, made)
from shaped_runs import chain_run
bulk._ROWS = 20  # many transactions
data = chain_run("killed", "net", int(ops))
print("ready", flush=True)
with Neo4jStore(url, user, os.environ["SECRET"]) as store:
    while True:
        store.save_run(data, replace=True)
        store.delete("killed")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with local_server(tmp_path_factory.mktemp("kills"), version=RELEASE) as running:
        yield running


@contextmanager
def writing_client(server: LocalServer) -> Iterator[subprocess.Popen[str]]:
    """A process that saves and deletes a run again and again; killed at the end."""
    arguments = [str(MADE), server.url, server.user, str(OPS)]
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, *arguments],
        env={**os.environ, "SECRET": server.password},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
        child.send_signal(signal.SIGKILL)


def check_runs_are_whole(store: Neo4jStore) -> None:
    """That of before, and the one that is written again and again, if it is there."""
    assert store.run_data("kept") == chain_run("kept", "other", OPS)
    if any(run.name == "killed" for run in store.runs()):
        assert store.run_data("killed") == chain_run("killed", "net", OPS)
    store.repair()
    assert store.info().pending == ()


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-kills")
@pytest.mark.timeout(1800)
@pytest.mark.exhaustive  # test_neo4j_writers kills some in every run of the tests
@pytest.mark.parametrize("kills", [2, 200])
def test_a_killed_client_leaves_whole_runs_on_the_server(server: LocalServer, kills: int) -> None:
    moments = random.Random(kills)
    with Neo4jStore(server.url, server.user, server.password) as store:
        store.save_run(chain_run("kept", "other", OPS), replace=True)
        for _ in range(kills):
            with writing_client(server):
                time.sleep(moments.uniform(0.0, 4.0))
            check_runs_are_whole(store)


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-kills")
@pytest.mark.timeout(14_400)
@pytest.mark.exhaustive  # test_neo4j_restarts kills one in every run of the tests
@pytest.mark.parametrize("kills", [200])
def test_a_killed_server_comes_back_with_whole_runs(tmp_path: Path, kills: int) -> None:
    moments = random.Random(kills)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for left in reversed(range(kills + 1)):
        with (
            local_server(tmp_path, version=RELEASE, port=port, start_seconds=400) as running,
            Neo4jStore(running.url, running.user, running.password) as store,
        ):
            if left == kills:
                store.save_run(chain_run("kept", "other", OPS))
            check_runs_are_whole(store)
            if left:
                with writing_client(running):
                    time.sleep(moments.uniform(0.0, 4.0))
                    os.kill(running.pid, signal.SIGKILL)
