"""A managed server that ended by itself is started again.

A query can take all of Java's memory whatever the limits of transactions say, as texts that are
made of texts are not counted; the server then ends rather than go on half.
"""

from __future__ import annotations

import time

from graphstore.neo4j.address import Address
from graphstore.neo4j.local_server.managed import (
    DEFAULT_HEAP,
    is_managed,
    is_running,
    noted_server,
    settled,
    status,
)
from graphstore.neo4j.local_server.running_on import begin

_END_SECONDS = 3.0
"""So long after its last connection broke a server may take to end."""
_POLL_SECONDS = 0.1
_CODE = "from graphstore.neo4j.local_server.managed import start; start(again=True)"


def heap_of(address: Address) -> str:
    """The memory of the server at *address*, if it is the managed one and should run; or ''."""
    noted = noted_server() if is_managed(address) else None
    return (noted.heap or DEFAULT_HEAP) if noted is not None and noted.should_run else ""


def is_started_again(address: Address) -> bool:
    """Whether the server at *address* should run, has ended, and now starts."""
    until = time.monotonic() + _END_SECONDS
    while heap_of(address):
        if not is_running():
            _start_again()
            return True
        if time.monotonic() > until:
            break
        time.sleep(_POLL_SECONDS)
    return False


def comes_back(address: Address) -> bool:
    """Have the server at *address* answer, if it should run and had ended; whether it had.

    Raises:
        StoreError: it does not answer within a minute.
    """
    if not heap_of(address) or (is_running() and status().ready):
        return False
    if not is_running():
        _start_again()
    return settled(may_start=True) is not None


def _start_again() -> None:
    """Start it in a process that waits for it, as we do not; of several, one starts it."""
    begin(_CODE)
