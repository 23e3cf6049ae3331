"""The loop of one worker process: a batch in, its results out."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from divergraph.jobs.work import run_batch


def serve(connection: Connection[Any, Any]) -> None:
    """Do what comes through *connection* until its other end is closed.

    Each message is (work, items), the answer their results or the exception instead.
    """
    # Ctrl-C goes to every process of the terminal; the one that leads ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            work, items = connection.recv()
            try:
                answer: object = run_batch(work, items)
            except Exception as error:  # noqa: BLE001 - raised again where it is asked for
                answer = error
            connection.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # whoever asked is gone


def main() -> None:
    """Serve the connection whose file descriptor is the argument."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)
