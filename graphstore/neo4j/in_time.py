"""An end to waiting for a server that looks at no clock: while it plans, Neo4j does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from graphstore.contract import QueryResult
from graphstore.errors import QueryError

_GRACE_SECONDS = 1.0
"""So long after its time the server may take to end a query by itself."""


def answered_in_time(
    ask: Callable[[], QueryResult],
    timeout: float | None,
    check: Callable[[], object] = lambda: None,
) -> QueryResult:
    """What *ask* gives; a second after its time it is left to itself, in a thread of its own, and
    *check* is called.

    Raises:
        QueryError: its time is over, or *ask* says so.
    """
    if timeout is None:
        return ask()
    answer: Future[QueryResult] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(timeout + _GRACE_SECONDS)
    except TimeoutError:
        if answer.done():
            raise
        check()
        raise QueryError(
            f"the query took longer than {timeout:g} s", hint="narrow it, or raise the time limit"
        ) from None
