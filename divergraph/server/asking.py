"""Questions answered beside the event loop: a few at once, and none that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from graphstore.cancellation import Cancellation

_T = TypeVar("_T")
_LOOK_SECONDS = 0.25
"""So often is looked whether who asked is still there; most answers take less."""


class ClientGoneError(Exception):
    """Who asked does not wait for the answer any more."""


class AskingPool:
    """Threads that answer, ``workers`` at once; who comes later waits for a turn."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="answers")

    async def answer(self, request: Request, work: Callable[[Cancellation], _T]) -> _T:
        """What *work* returns; its database query is stopped if the client goes away.

        Raises:
            ClientGoneError: it went.
        """
        cancellation = Cancellation()

        def in_turn() -> _T:
            cancellation.check()  # whoever waited for a turn may have gone meanwhile
            return work(cancellation)

        future = asyncio.get_running_loop().run_in_executor(self._threads, in_turn)
        try:
            while not (await asyncio.wait({future}, timeout=_LOOK_SECONDS))[0]:
                if not cancellation.cancelled and await request.is_disconnected():
                    cancellation.cancel()
        except asyncio.CancelledError:  # the server ends
            cancellation.cancel()
            raise
        if cancellation.cancelled:
            future.exception()  # nobody is to be told
            raise ClientGoneError
        return future.result()

    def close(self) -> None:
        """Answer nothing more, once what is asked is answered."""
        self._threads.shutdown()
