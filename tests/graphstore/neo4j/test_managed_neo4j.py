"""``divergraph neo4j``: the same server through its whole life, as a user has it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from divergraph.cli.main import run
from graphstore.errors import StoreError
from graphstore.file_lock import held_lock, is_locked
from graphstore.neo4j import connection
from graphstore.neo4j.local_server.jars import (
    LTS,
    NEWEST,
    Jars,
    fetch_jars,
    fetched_jars,
    version_number,
)
from graphstore.neo4j.local_server.java import find_java
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

COMMAND = [sys.executable, "-c", "from divergraph.cli.main import main; main()", "neo4j"]


@pytest.fixture
def neo4j(capsys):
    """Runs ``divergraph neo4j`` in this process: (exit code, standard output, error)."""

    def call(*arguments):
        capsys.readouterr()
        code = run(["neo4j", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pid_of(neo4j) -> int:
    return json.loads(neo4j("status", "--json")[1])["pid"]


def is_alive(pid: int) -> bool:
    """Zombies are not: a test's child stays one until it is waited for."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.mark.parametrize(("text", "number"), [("lts", LTS), ("newest", NEWEST), ("5.26.7",) * 2])
def test_versions(text, number):
    assert version_number(text) == number


def test_one_java_serves_both_lines():
    for version in (LTS, NEWEST):
        assert find_java(version).major >= 17


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--version", "4.4.40"], "too old"),
        (["--version", "five"], "no version of Neo4j"),
        (["--heap", "lots"], "no amount of memory"),
        (["--port", "0"], "0 is not in the range"),
    ],
)
def test_what_start_refuses(neo4j, arguments, said):
    code, out, err = neo4j("start", *arguments)
    assert code == 2
    assert said in err
    assert out == ""


def test_before_the_first_start(neo4j):
    assert neo4j("status")[:2] == (1, "not running\n")
    assert neo4j("url")[0] == 1
    code, _, err = neo4j("stop")
    assert (code, err) == (0, "no Neo4j was running\n")


def test_a_port_in_use(neo4j):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = neo4j("start", "--port", taken.getsockname()[1])
    assert code == 2
    assert re.search(r"cannot listen on port \d+.*--port takes another one", err)


def test_a_cut_jar_is_fetched_again(tmp_path, monkeypatch):
    """Jars noted at an earlier start count only while all are whole: no network is asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = tmp_path / "neo4j-5.26.7.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/neo4j/server/CommunityEntryPoint.class", b"x" * 100)
    note = tmp_path / "divergraph" / "neo4j-5.26.7.json"
    note.parent.mkdir()
    note.write_text(json.dumps({"main_class": "Main", "jars": [str(jar)]}))
    assert fetch_jars("5.26.7").paths == (jar,)
    jar.write_bytes(jar.read_bytes()[:60])
    assert fetched_jars("5.26.7") is None


@pytest.mark.neo4j
def test_a_file_that_is_another_than_when_its_version_was_tried_does_not_run(tmp_path, monkeypatch):
    jars = fetch_jars(LTS)
    other = tmp_path / jars.paths[0].name
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("org/neo4j/Evil.class", b"x" * 100)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    note = tmp_path / "divergraph" / f"neo4j-{LTS}.json"
    note.parent.mkdir()

    def noted(*paths: Path) -> Jars | None:
        paths_of_all = [str(path) for path in paths]
        note.write_text(json.dumps({"main_class": jars.main_class, "jars": paths_of_all}))
        return fetched_jars(LTS)

    assert noted(*jars.paths) == jars
    assert noted(*jars.paths[:75]) is None, "what a killed build had of them"
    assert noted(other, *jars.paths[1:]) is None
    assert noted(*jars.paths, other.rename(tmp_path / "unheard-of.jar")) is None


def test_a_lock_ends_with_its_holder(tmp_path):
    """A child inherits it, as the server does; nothing is left of it when that is killed."""
    path = tmp_path / "lock"
    with held_lock(path) as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, pass_fds=(lock,))
    assert is_locked(path)
    child.kill()
    child.communicate()
    assert not is_locked(path)


@pytest.mark.timeout(900)  # a busy machine is no failure
@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-access")
class TestLife:
    """Each test starts it and leaves nothing running."""

    @pytest.fixture(autouse=True)
    def nothing_left(self, neo4j):
        yield
        pid = pid_of(neo4j)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    @pytest.fixture
    def umask_of_nobody(self):
        before = os.umask(0)
        yield
        os.umask(before)

    @pytest.mark.usefixtures("umask_of_nobody")
    def test_start_use_kill_start_stop(self, neo4j, folders, free_port, monkeypatch):
        code, out, err = neo4j("start", "--port", free_port, "--heap", "256m")
        url = f"bolt://127.0.0.1:{free_port}"
        assert (code, out) == (0, f"Neo4j {LTS} is running at {url}\n"), err
        assert neo4j("url")[:2] == (0, f"{url}\n")
        home = folders / "data" / "divergraph" / "neo4j" / "5"
        password = (home / "password").read_text()
        own = (folders / "data" / "divergraph", home.parent, home, home / "password")
        assert not any(path.stat().st_mode & 0o077 for path in own), "it follows the umask"
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
        assert not any(password.encode() in command for command in commands)

        # the password is found by itself, by every name of this machine
        for place in (url, f"neo4j://localhost:{free_port}"):
            with open_store(place) as store:
                assert store.runs() == []
        assert run(["delete", "nothing", "--store", f"bolt+s://127.0.0.1:{free_port}"]) == 3

        # other versions and ports wait until it has ended; the same one is just there
        pid = pid_of(neo4j)
        assert neo4j("start")[0] == 0
        assert pid_of(neo4j) == pid
        assert "stop` ends it first" in neo4j("start", "--version", "newest")[2]
        assert "stop` ends it first" in neo4j("start", "--port", "1")[2]

        # a write outlives a server that is killed and started again, however long that takes
        monkeypatch.setattr(connection, "_WRITE_RETRY_SECONDS", 250.0)
        with connection.Connection(url, "neo4j", password, None) as wire:
            wire.define("CREATE (:Kept {by: 'before'})")
            os.kill(pid, signal.SIGKILL)
            while is_alive(pid):
                time.sleep(0.05)
            assert neo4j("status")[0] == 1

            def write(run):
                run("CREATE (:Kept {by: 'during'})")

            writing = threading.Thread(target=wire.change, args=(write,))
            writing.start()
            code, _, err = neo4j("start")
            writing.join()
            assert code == 0, err
            kept = wire.read("MATCH (k:Kept) RETURN k.by AS by ORDER BY by", {})
            assert kept.rows == (("before",), ("during",))
        assert pid_of(neo4j) != pid

        code, _, err = neo4j("stop")
        assert code == 0
        assert err.endswith("stopped\n")
        assert neo4j("status")[0] == 1
        with (
            open_store(url) as store,
            pytest.raises(StoreError, match="`divergraph neo4j start` starts your server"),
        ):
            store.runs()

    @pytest.mark.exhaustive
    def test_two_starts_at_once_make_one_server(self, neo4j, free_port):
        """Both say it runs. A stale process number does not disturb the next start."""
        command = [*COMMAND, "start", "--port", str(free_port), "--heap", "256m", "--json"]
        both = [subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(2)]
        ended = [start.communicate() for start in both]
        states = [json.loads(out) for out, _ in ended]
        assert states[0] == states[1]
        assert states[0]["ready"]
        home = Path(states[0]["home"])
        assert neo4j("stop")[0] == 0
        # the number now belongs to somebody else: this test
        (home / "run" / "neo4j.pid").write_text(f"{os.getpid()}\n")
        assert neo4j("status")[0] == 1
        assert neo4j("stop")[2] == "no Neo4j was running\n"

    @pytest.mark.usefixtures("ctrl_c_heard")
    def test_stopping_a_start_leaves_nothing(self, neo4j, folders, free_port):
        command = [*COMMAND, "start", "--port", str(free_port), "--heap", "256m"]
        start = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
        number = folders / "data" / "divergraph" / "neo4j" / "5" / "run" / "neo4j.pid"
        while not number.exists() or not number.read_text():
            assert start.poll() is None
            time.sleep(0.02)
        pid = int(number.read_text())
        assert is_alive(pid)
        start.send_signal(signal.SIGINT)
        _, err = start.communicate()
        assert start.returncode == 130, err
        assert "Traceback" not in err
        assert not is_alive(pid)
        assert neo4j("status")[0] == 1

    def test_a_server_that_cannot_start_shows_its_log(self, neo4j, folders, free_port):
        """Here its data are damaged; nothing is left running."""
        logs = folders / "data" / "divergraph" / "neo4j" / "5" / "data" / "databases"
        logs.parent.mkdir(parents=True)
        logs.write_text("a file where a folder should be")
        (folders / "data" / "divergraph" / "neo4j" / "5" / "password").touch(0o600)
        code, _, err = neo4j("start", "--port", free_port, "--heap", "256m")
        assert code == 3
        assert re.search(r"ended while it started: .*ERROR", err)
        assert "console.log" in err
        assert pid_of(neo4j) is None

    def test_older_than_its_data(self, neo4j, folders):
        home = folders / "data" / "divergraph" / "neo4j" / "5"
        home.mkdir(parents=True)
        (home / "version").write_text("5.99.1\n")
        code, _, err = neo4j("start", "--version", "lts")
        assert code == 2
        assert "the data were last used by Neo4j 5.99.1" in err
