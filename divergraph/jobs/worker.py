"""The loop of one worker process: a batch in, its results out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from divergraph.jobs.work import Work, run_batch


def serve(
    connection: Connection[Any, Any],
    work: Work[Any, Any] | None = None,
    items: Sequence[Any] = (),
) -> None:
    """Do what comes through *connection* until its other end is closed.

    Each message is (work, items), or numbers of *items* if *work* is given; the answer
    their results, or the exception instead.
    """
    try:
        while True:
            request = connection.recv()
            try:
                if work is None:
                    answer: object = run_batch(*request)
                else:
                    answer = run_batch(work, [items[number] for number in request])
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
