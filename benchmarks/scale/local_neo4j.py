"""A Neo4j for as long as a ``with`` block: for measurements and tests.

The server that stays is :mod:`graphstore.neo4j.local_server.managed`; both are the same process.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from graphstore.neo4j.local_server.jars import LTS, NEWEST, fetch_jars, version_number
from graphstore.neo4j.local_server.java import find_java
from graphstore.neo4j.local_server.process import Setup, launch, prepare, wait_until_ready
from graphstore.neo4j.passwords import DEFAULT_USER

__all__ = ["LTS", "NEWEST", "LocalServer", "local_server"]

# Its life is short: half the start's CPU time goes into code that would never run twice. Java then
# takes 48 MB for such code, which hundreds of tests on one server fill.
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=160m", "-XX:+UseSerialGC")

_PR_SET_PDEATHSIG = 1  # of Linux's prctl


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server: where it listens on 127.0.0.1, and the way in."""

    url: str
    user: str
    password: str
    version: str
    pid: int
    home: Path


@contextmanager
def local_server(
    home: Path,
    *,
    version: str | None = None,
    heap: str = "256m",
    start_seconds: float = 180.0,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    quick_start: bool = True,
) -> Iterator[LocalServer]:
    """A Neo4j with its data in *home*, killed at the end.

    *version* is lts, newest or a number; None is lts. *settings* are lines for
    ``neo4j.conf``. *quick_start* saves CPU at the start and costs some later: set it to
    False to measure queries.

    Raises:
        StoreError: no fitting Java, jars that cannot be fetched, or a server that does
            not start; with the end of its log.
    """
    number = version_number(version or "lts")
    setup = Setup(
        home,
        find_java(number),
        fetch_jars(number),
        port or _free_port(),
        heap,
        settings or {},
    )
    if quick_start:
        setup = replace(setup, java_options=_QUICK_START)
    password = prepare(setup)
    process = launch(setup, preexec_fn=_end_with_parent if sys.platform == "linux" else None)
    try:
        wait_until_ready(setup, password, process, start_seconds)
        yield LocalServer(
            setup.url, DEFAULT_USER, password.reveal(), number, process.pid, setup.home
        )
    finally:
        _kill(process)


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent is gone; runs before Java does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it is kept, so it need not end in order."""
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
