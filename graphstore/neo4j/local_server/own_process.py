"""Work for the managed server that goes on when the command that began it has ended."""

from __future__ import annotations

import os
import subprocess
import sys

from graphstore.neo4j.local_server.managed import STARTED


def begin(code: str, *words: str) -> None:
    """Run the Python *code* with *words* as its arguments, in a process of its own."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    STARTED.append(process)  # it outlives us; Python would warn about a child nobody waits for
