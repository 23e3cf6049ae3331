"""The server and what it stands on are killed: what it answered stays true, and jobs end once."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from neo4j_files import RELEASE
from own_mounts import own_mounts
from server_process import PATIENCE, ServerProcess

from benchmarks.scale.local_neo4j import local_server
from divergraph.api.demo import demo_data
from divergraph.jobs.background.process_memory import process_memory
from divergraph.jobs.background.shelf import JobShelf
from graphstore.open_store import open_store

MADE = Path(__file__).parents[1] / "made"
COMPARE = {
    "golden": "data:model.ckpt.meta",
    "golden-dump": "data:golden",
    "device": "data:npu_fault/graph",
    "device-dump": "data:npu_fault/dump",
}


@pytest.fixture
def moments() -> random.Random:
    """Other moments each time; a failure shows the seed."""
    seed = int(os.environ.get("DIVERGRAPH_SEED", time.time_ns() % 1_000_000))
    logging.getLogger(__name__).warning("DIVERGRAPH_SEED=%d", seed)
    return random.Random(seed)


@pytest.fixture
def roots(tmp_path: Path) -> tuple[str, str]:
    shutil.copytree(demo_data().folder, tmp_path / "data")
    return "--root", f"data={tmp_path / 'data'}"


def ask_some(server: ServerProcess, number: int) -> list[str]:
    """A graph to import and a comparison, under names of their own."""
    graph = {"path": "data:npu_fault/graph", "name": f"graph{number}"}
    return [
        server.ask("import", graph),
        server.ask("compare", {**COMPARE, "run": f"run{number}"}),
    ]


def check_each_ended_once(server: ServerProcess, asked: list[str], kills: int) -> None:
    """Jobs are told as they were asked for; each ended well, and its process ran once."""
    for name in asked:
        found = server.until_over(name)
        assert found["state"] == "ended", found
        assert found["exit_code"] == (0 if found["command"] == "import" else 1), found
        assert len(found["made"]) == 1, found
        told = (server.state / "jobs" / name / "progress.jsonl").read_text().splitlines()
        attempts = [line["attempt"] for line in map(json.loads, told) if "attempt" in line]
        assert attempts == [1], found
    listed = [job["id"] for job in server.client.get("/v1/jobs").json()["jobs"]]
    assert sorted(listed) == sorted(asked)
    with open_store(server.store) as store:
        assert len(store.runs()) + len(store.graphs()) == len(asked)
        assert store.check() == ()


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [40])
def test_a_killed_server_loses_no_job_and_runs_none_twice(tmp_path, roots, moments, kills):
    asked: list[str] = []
    with ServerProcess(tmp_path, *roots, "--limit", "claim_seconds=1") as server:
        for number in range(kills):
            if number % 4 == 0:
                asked += ask_some(server, number)
            time.sleep(moments.uniform(0.0, 1.5))
            server.kill()
            server.start()
            assert server.client.get("/readyz").status_code == 200
        check_each_ended_once(server, asked, kills)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [40])
def test_a_killed_job_is_taken_up_again(tmp_path, roots, moments, kills):
    """Each comparison is killed twice, the most it bears, at moments of its life."""
    with ServerProcess(tmp_path, *roots, "--limit", "claim_seconds=1") as server:
        shelf, left = JobShelf(server.state / "jobs"), kills
        while left:
            name = server.ask("compare", {**COMPARE, "run": f"run{left}"})
            for _ in range(min(2, left)):
                time.sleep(moments.uniform(0.2, 3.0))
                left -= kill_process_of(shelf, name)
            found = server.until_over(name)
            assert (found["state"], found["exit_code"]) == ("ended", 1), found
            assert found["made"] == [f"run{found['made'][0].removeprefix('run')}"]
        runs = server.client.get("/v1/runs").json()["runs"]
        origins = {
            server.client.get(f"/v1/runs/{run['run']}/origins").text.partition(",")[2]
            for run in runs
        }
        assert len(origins) == 1, "all say the same"
        with open_store(server.store) as store:
            store.repair()
            assert (store.check(), store.info().pending) == ((), ())


def kill_process_of(shelf: JobShelf, name: str) -> bool:
    """End the process of a job as the kernel does; False if it has none now."""
    process = shelf.named(name)
    said = {} if process is None else json.loads(read(process.folder / "process.json") or "{}")
    if not said or process is None or process.state != "running" or not process_memory(said["pid"]):
        return False
    os.killpg(said["pid"], signal.SIGKILL)
    return True


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_two_servers_of_one_store_share_their_jobs(tmp_path, roots, moments):
    """Also where one of them is killed now and then."""
    asked: list[str] = []
    with ServerProcess(tmp_path, *roots) as first, ServerProcess(tmp_path, *roots) as second:
        for number in range(8):
            asked += ask_some(moments.choice((first, second)), number)
            time.sleep(moments.uniform(0.0, 1.5))
            second.kill()
            second.start()
        for name in asked:
            assert first.until_over(name) == second.job(name)
        check_each_ended_once(first, asked, 8)


FULL = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from server_process import ServerProcess
folder = Path(sys.argv[2])
(folder / "state").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder / "state"], check=True)
(folder / "data").mkdir()
(folder / "data/graph").write_text("no graph")
graph = {"command": "import", "options": {"path": "data:graph"}}
with ServerProcess(folder, "--root", f"data={folder / 'data'}") as server:
    filling = folder / "state/filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    refused = server.client.post("/v1/jobs", json=graph)
    print(refused.status_code, refused.json()["title"])
    print(server.client.get("/v1/jobs").json()["jobs"])
    filling.unlink()
    found = server.until_over(server.ask("import", graph["options"]))
    print(found["exit_code"], len(server.client.get("/v1/jobs").json()["jobs"]))
"""


@pytest.mark.slow
def test_a_full_disk_takes_no_job_until_there_is_room(tmp_path):
    done = subprocess.run(
        [*own_mounts(), sys.executable, "-c", FULL, str(MADE), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = ["507 the disk is full or fails", "[]", "2 1"]
    assert done.stdout.splitlines() == told, (tmp_path / "server.log").read_text()


class Asking(threading.Thread):
    """Asks the same again and again; what it heard besides the one right answer."""

    def __init__(self, client: httpx.Client, right: str) -> None:
        super().__init__(daemon=True)
        self._client, self._right, self.ended = client, right, threading.Event()
        self.good, self.bad, self.wrong = 0, 0, []

    def run(self) -> None:
        while not self.ended.is_set():
            told = self._client.get("/v1/runs/demo/origins")
            if told.status_code == 503 and told.json()["title"] == "the store cannot be used":
                self.bad += 1
            elif (told.status_code, told.text) == (200, self._right):
                self.good += 1
            else:
                self.wrong.append(told.text)


@pytest.fixture
def spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.neo4j
@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [5])
def test_a_killed_neo4j_is_told_and_comes_back(
    tmp_path, moments, monkeypatch, divergraph, spare_port, kills
):
    home, right = tmp_path / "home", ""
    for left in reversed(range(kills + 1)):
        with local_server(home, version=RELEASE, port=spare_port, start_seconds=400) as neo4j:
            if left == kills:
                monkeypatch.setenv("NEO4J_USERNAME", neo4j.user)
                monkeypatch.setenv("NEO4J_PASSWORD", neo4j.password)
                assert divergraph("demo", "--store", neo4j.url).code == 0
                server = ServerProcess(tmp_path, store=neo4j.url)
                right = server.client.get("/v1/runs/demo/origins").text
                askers = [Asking(server.client, right) for _ in range(4)]
                for asker in askers:
                    asker.start()
            end = time.monotonic() + PATIENCE
            before = [asker.good for asker in askers]
            while any(asker.good <= count for asker, count in zip(askers, before, strict=True)):
                assert time.monotonic() < end, "it does not come back"
                time.sleep(0.1)
            time.sleep(moments.uniform(0.0, 2.0))
            os.kill(neo4j.pid, signal.SIGKILL)
        if left:
            time.sleep(moments.uniform(0.0, 45.0))
    with server:
        while any(asker.bad == 0 for asker in askers):
            assert time.monotonic() < end + PATIENCE, "nobody is told"
            time.sleep(0.1)
        for asker in askers:
            asker.ended.set()
            asker.join()
        assert [asker.wrong for asker in askers] == [[]] * len(askers)


@pytest.mark.neo4j
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_frozen_neo4j_holds_nobody_up(tmp_path, monkeypatch, divergraph):
    paths = ["/v1/runs", "/v1/runs/demo/origins", "/runs/demo", "/readyz"] * 5
    with local_server(tmp_path / "home", version=RELEASE) as neo4j:
        monkeypatch.setenv("NEO4J_USERNAME", neo4j.user)
        monkeypatch.setenv("NEO4J_PASSWORD", neo4j.password)
        assert divergraph("demo", "--store", neo4j.url).code == 0
        with ServerProcess(tmp_path, store=neo4j.url) as server, ThreadPoolExecutor(20) as askers:
            for _ in range(3):
                os.kill(neo4j.pid, signal.SIGSTOP)
                for seconds in (10.0, 5.0):
                    began = time.monotonic()
                    told = list(askers.map(server.client.get, paths))
                    assert {answer.status_code for answer in told} == {503}
                    assert time.monotonic() - began < seconds
                    assert server.client.get("/v1/jobs").status_code == 200
                os.kill(neo4j.pid, signal.SIGCONT)
                end = time.monotonic() + PATIENCE
                while any(server.client.get(path).status_code != 200 for path in set(paths)):
                    assert time.monotonic() < end, "it does not come back"
