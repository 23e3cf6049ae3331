"""The Neo4j that ``divergraph neo4j start`` runs for one user of this machine.

All is below ``neo4j`` in the user's data folder: ``server.json`` (version, port, the
server's folder), ``running.lock`` and a folder per release line with data and password.

The server process inherits ``running.lock``, so the kernel says whether it lives: a stale
process number, or one that belongs to another program by now, cannot fool anybody.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from graphstore.errors import InputError, StoreError
from graphstore.file_lock import held_lock, is_locked
from graphstore.neo4j.address import DEFAULT_PORT, Address
from graphstore.neo4j.local_server.jars import fetch_jars, version_number
from graphstore.neo4j.local_server.java import find_java
from graphstore.neo4j.local_server.process import (
    Setup,
    answers,
    check_memory,
    launch,
    prepare,
    read_password,
    stop,
    wait_until_ready,
)
from graphstore.neo4j.passwords import Password, check_private
from graphstore.private_folder import private_folder

START_SECONDS = 180.0
STOP_SECONDS = 90.0
SETTLE_SECONDS = 120.0
_POLL_SECONDS = 0.2
DEFAULT_VERSION = "lts"
DEFAULT_HEAP = "1g"


def _quiet(text: str) -> None:
    """Say nothing: for callers who show no progress."""


STARTED: list[subprocess.Popen[bytes]] = []
_OURS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The managed server: ``running`` is the process, ``ready`` that it answers.

    ``version`` and ``url`` are those of the last start; None if there never was one.
    """

    running: bool
    ready: bool
    version: str | None
    url: str | None
    pid: int | None
    home: Path | None

    @property
    def log(self) -> Path | None:
        """What the server says."""
        return None if self.home is None else self.home / "logs" / "console.log"


@dataclass(frozen=True, slots=True)
class NotedServer:
    """The managed server as it was last started."""

    version: str
    port: int
    home: Path
    heap: str | None = None
    should_run: bool = False
    """False once the user has stopped it."""

    @property
    def url(self) -> str:
        """Where its store is."""
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def password_file(self) -> Path:
        """The password, readable by its owner only."""
        return self.home / "password"

    @property
    def pid_file(self) -> Path:
        """The process's number."""
        return self.home / "run" / "neo4j.pid"


def start(
    version: str | None = None,
    port: int | None = None,
    heap: str | None = None,
    say: Callable[[str], None] = _quiet,
    *,
    again: bool = False,
) -> ServerStatus:
    """Start the server, or find it running; returns when it answers.

    With *again*, only if it ended by itself: a user may have stopped it since.

    None means: as at the last start, else lts, 7687 and 1g; but a memory is only that of the last
    start where the server ended by itself.

    Raises:
        InputError: no such version or memory; it runs with another version or port; the
            data are of a newer version; the port is in use.
        StoreError: no fitting Java, jars that cannot be fetched, or a server that does
            not start; nothing is left running then.
    """
    if heap is not None:
        check_memory(heap)
    folder = _folder()
    private_folder(folder)
    with held_lock(folder / "starting.lock"):
        noted = noted_server()
        if again and not (noted is not None and noted.should_run):
            return status()
        wanted = _wanted(noted, version, port)
        if is_locked(_running_lock()):
            _check_same(noted, wanted, is_chosen=version is not None, port=port)
            running = settled()
            if running is not None:
                return running
        _check_not_older(wanted)
        _check_port(wanted.port)
        java = find_java(wanted.version)
        jars = fetch_jars(wanted.version, say)
        last_heap = noted.heap if noted is not None and noted.should_run else None
        wanted = replace(wanted, heap=heap or last_heap or DEFAULT_HEAP)
        setup = Setup(wanted.home, java, jars, wanted.port, wanted.heap or DEFAULT_HEAP)
        say(f"starting Neo4j {wanted.version} on Java {java.major}")
        password = prepare(setup)
        # Who asks meanwhile waits for a server that is started again: it should run all the while.
        _note(replace(wanted, should_run=again))
        process = _launched(setup, password)
        _write(replace(wanted, should_run=True))
    # it outlives us; Python would warn about a child nobody waits for
    STARTED.append(process)
    return status()


def stop_server(say: Callable[[str], None] = _quiet) -> bool:
    """End the server and wait until it has; False if none was running.

    Raises:
        StoreError: it does not end.
    """
    noted = noted_server()
    if noted is None:
        return False
    _write(replace(noted, should_run=False))
    if not is_running():
        return False
    pid = _pid(noted)
    if pid is None:
        raise StoreError("the server's process number is lost", where=str(noted.pid_file))
    say("stopping Neo4j (it takes about 10 s)")
    if not stop(pid, lambda: not is_locked(_running_lock()), STOP_SECONDS):
        raise StoreError(
            f"Neo4j did not end within {STOP_SECONDS:g} s",
            where=str(noted.home / "logs"),
            hint=f"`kill -9 {pid}` ends it; what is committed stays",
        )
    return True


def status() -> ServerStatus:
    """Whether the server runs and answers."""
    noted = noted_server()
    if noted is None:
        return ServerStatus(False, False, None, None, None, None)
    running = is_locked(_running_lock())
    ready = running and noted.password_file.exists()
    ready = ready and answers(noted.url, read_password(noted.password_file))
    pid = _pid(noted) if running else None
    return ServerStatus(running, ready, noted.version, noted.url, pid, noted.home)


def managed_password(address: Address) -> Password | None:
    """The password of the managed server, if *address* is its; it need not run."""
    if address.host not in _OURS:
        return None
    noted = noted_server()
    if noted is None or noted.port != address.port or not noted.password_file.exists():
        return None
    check_private(noted.password_file)
    return read_password(noted.password_file)


def is_managed(address: Address) -> bool:
    """Whether *address* is where the managed server listens, or did at its last start."""
    noted = noted_server()
    return noted is not None and address.host in _OURS and noted.port == address.port


def _launched(setup: Setup, password: Password) -> subprocess.Popen[bytes]:
    """The server, answering. What was not waited for to the end is not left running."""
    process = None
    try:
        with held_lock(_running_lock()) as lock, interrupts_held():
            # it has a session of its own, and the lock for as long as it lives
            process = launch(setup, start_new_session=True, pass_fds=(lock,))
        wait_until_ready(setup, password, process, START_SECONDS)
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        raise
    return process


def _wanted(noted: NotedServer | None, version: str | None, port: int | None) -> NotedServer:
    number = version_number(version or (noted.version if noted else DEFAULT_VERSION))
    line = "5" if number.startswith("5.") else "calendar"
    default_port = noted.port if noted else DEFAULT_PORT
    return NotedServer(number, port or default_port, _folder() / line)


def _check_same(
    noted: NotedServer | None, wanted: NotedServer, *, is_chosen: bool, port: int | None
) -> None:
    if noted is not None and is_chosen and wanted.version != noted.version:
        raise InputError(
            f"Neo4j {noted.version} is running", hint="`divergraph neo4j stop` ends it first"
        )
    if noted is not None and port is not None and port != noted.port:
        raise InputError(
            f"Neo4j is running at {noted.url}", hint="`divergraph neo4j stop` ends it first"
        )


def is_running() -> bool:
    """Whether the process is there."""
    return is_locked(_running_lock())


def settled(*, may_start: bool = False) -> ServerStatus | None:
    """The server once it answers; None if it ends instead, as one just killed does.

    With *may_start*, it need not have started yet.

    Raises:
        StoreError: two minutes have gone by.
    """
    until = time.monotonic() + SETTLE_SECONDS
    while is_running() or may_start:
        state = status()
        if state.ready:
            return state
        if time.monotonic() > until:
            raise StoreError(
                "Neo4j is running but does not answer",
                where=str(state.log),
                hint="`divergraph neo4j stop`, then start it again",
                retryable=True,
            )
        time.sleep(_POLL_SECONDS)
    return None


def _check_not_older(wanted: NotedServer) -> None:
    """Neo4j brings data forward to a newer version, never back."""
    used = wanted.home / "version"
    if not used.exists():
        return
    before = used.read_text(encoding="utf-8").strip()
    if _parts(wanted.version) < _parts(before):
        raise InputError(
            f"the data were last used by Neo4j {before}, {wanted.version} cannot read them",
            where=str(wanted.home),
            hint=f"--version {before} or newer",
        )


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"cannot listen on port {port}: {error.strerror}",
                hint="another program may use it; --port takes another one",
            ) from error


def _folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("divergraph") / "neo4j"


def _running_lock() -> Path:
    return _folder() / "running.lock"


def noted_server() -> NotedServer | None:
    """What the last start noted.

    Raises:
        StoreError: the note cannot be read.
    """
    path = _folder() / "server.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        heap, should_run = values.get("heap"), values.get("should_run") is True
        place = str(values["version"]), int(values["port"]), Path(values["home"])
        return NotedServer(*place, None if heap is None else str(heap), should_run)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "the note about the managed Neo4j cannot be read",
            where=str(path),
            hint="remove it and run `divergraph neo4j start`; the data stay",
        ) from error


def _note(wanted: NotedServer) -> None:
    _write(wanted)
    (wanted.home / "version").write_text(wanted.version + "\n", encoding="utf-8")


def _write(noted: NotedServer) -> None:
    values = {**asdict(noted), "home": str(noted.home)}
    path = _folder() / "server.json"
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)


def _pid(noted: NotedServer) -> int | None:
    try:
        return int(noted.pid_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # the caller says what that means


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold SIGINT back inside; one that came is raised as KeyboardInterrupt at the end.

    Python raises it in the main thread only, so in any other there is nothing to hold; nor is
    there where SIGINT is ignored, as in what a shell started in the background.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
