"""Work for the managed server that goes on when the command that began it has ended."""

from __future__ import annotations

import subprocess

from graphstore.neo4j.local_server.managed import STARTED
from graphstore.own_python import own_environment, own_python


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
