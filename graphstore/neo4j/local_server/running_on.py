"""A managed server in which a query runs on long after its end is killed and started again.

Neo4j looks at the clock between rows, not inside an expression: ``reduce`` over a range of ten
thousand million numbers keeps a processor for an hour after its time is over, and a few such keep
them all from everybody. Neo4j has no other way to end one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from graphstore.cypher.statements import load_statements
from graphstore.file_lock import held_lock, is_locked
from graphstore.neo4j.local_server.managed import STARTED, NotedServer, is_running, noted_server
from graphstore.neo4j.local_server.managed import start as start_server
from graphstore.neo4j.local_server.process import read_password
from graphstore.neo4j.passwords import DEFAULT_USER
from graphstore.own_python import own_environment, own_python

QUERY_NAME = "divergraph_query"
"""The key under which the metadata of a transaction name the query."""
RUN_ON_SECONDS = 30.0
"""So long an ended query may run on: most end within a row, and a new start costs others 10 s."""
_POLL_SECONDS = 2.0
_DYING_SECONDS = 3.0
"""Less than a server needs to start: none ends for another reason so soon after."""
_STATEMENTS = load_statements("server.neo4j")
_CODE = "import sys; from graphstore.neo4j.local_server.running_on import watch; "
_CODE += "watch(float(sys.argv[1]))"


def watch_in_background() -> None:
    """Have a process see to it that a query that was given up does not run on; one is enough."""
    if (lock := _lock()) is None or is_locked(lock):
        return
    begin(_CODE, str(RUN_ON_SECONDS))


def watch(seconds: float) -> None:
    """Look until no ended query runs on; where one does for *seconds*, start the server again."""
    if (lock := _lock()) is None:
        return
    with suppress(BlockingIOError), held_lock(lock, wait=False):
        # Neo4j takes two seconds to see that a query's time is over
        first: dict[str, float] = {}
        quiet = 0
        while quiet < 2 and (noted := noted_server()) is not None and is_running():
            time.sleep(min(_POLL_SECONDS, seconds))
            now = time.monotonic()
            if (there := _running_on(noted)) is not None:
                first = {name: first.get(name, now) for name in there}
            quiet = 0 if first else quiet + 1
            if any(now - since >= seconds for since in first.values()):
                _start_again(noted)
                return


def was_ended_since(moment: float) -> bool:
    """Whether the server was killed for such a query after *moment*, a time of the epoch, or just
    before: then it was not what others asked that ended it."""
    noted = noted_server()
    try:
        return noted is not None and _note(noted).stat().st_mtime >= moment - _DYING_SECONDS
    except FileNotFoundError:
        return False


def _running_on(noted: NotedServer) -> list[str] | None:
    """The names of queries that were ended and still run; None if the server does not say."""
    import neo4j

    auth = neo4j.basic_auth(DEFAULT_USER, read_password(noted.password_file).reveal())
    params = {"key": QUERY_NAME}
    try:
        with (
            neo4j.GraphDatabase.driver(noted.url, auth=auth, connection_timeout=15.0) as driver,
            driver.session(default_access_mode=neo4j.READ_ACCESS) as session,
        ):
            return [str(row["name"]) for row in session.run(_STATEMENTS["running_on"], params)]
    except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError):
        return None


def _start_again(noted: NotedServer) -> None:
    """Kill the server, whose own way to stop waits for its queries; what is committed stays."""
    _note(noted).touch(mode=0o600)
    with suppress(OSError, ValueError):
        os.kill(int(noted.pid_file.read_text(encoding="utf-8")), signal.SIGKILL)
        while is_running():
            time.sleep(0.1)
        start_server(again=True)


def _note(noted: NotedServer) -> Path:
    """What is written anew whenever the server is killed."""
    return noted.home.parent / "killed"


def _lock() -> Path | None:
    """What the one who watches holds."""
    noted = noted_server()
    return None if noted is None else noted.home.parent / "watching.lock"


def begin(code: str, *words: str) -> None:
    """Run the Python *code* with *words* as its arguments, in a process of its own."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        own_python("-c", code, *words),
        env=own_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    STARTED.append(process)  # it outlives us; Python would warn about a child nobody waits for
