"""Questions answered beside the event loop: a few at once, and none that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request

from graphstore.cancellation import Cancellation

_T = TypeVar("_T")
_LOOK_SECONDS = 0.25


class ClientGoneError(Exception):
    """Who asked does not wait for the answer any more."""


class AskingPool:
    """Threads that answer, ``workers`` at once; who comes later waits for a turn."""

    def __init__(self, workers: int) -> None:
        self._limiter = anyio.CapacityLimiter(workers)

    async def answer(self, request: Request, work: Callable[[Cancellation], _T]) -> _T:
        """What *work* returns; its database query is stopped if the client goes away.

        Raises:
            ClientGoneError: it went.
        """
        cancellation = Cancellation()
        gone = False

        async def watch() -> None:
            nonlocal gone
            while not await request.is_disconnected():
                await anyio.sleep(_LOOK_SECONDS)
            gone = True
            cancellation.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            # an error that left the block would come out as a group of errors
            found = await to_thread.run_sync(_outcome, work, cancellation, limiter=self._limiter)
            tasks.cancel_scope.cancel()
        if gone:
            raise ClientGoneError
        if isinstance(found, _Failed):
            raise found.error
        return found


class _Failed:
    """How work ended that raised an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _outcome(work: Callable[[Cancellation], _T], cancellation: Cancellation) -> _T | _Failed:
    try:
        return work(cancellation)
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        return _Failed(error)
