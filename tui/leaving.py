"""Runs the app so that the user can quit at once, by key or by signal, even during a long query."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from tui.owner import Owner

SIGNALLED = 128
"""Added to a signal's number: the exit code of a process it ended."""
TROUBLE = 3

P = ParamSpec("P")
T = TypeVar("T")


def run_app(app: Owner) -> int:
    """Run *app* to its end and return the exit code.

    The terminal is restored after SIGTERM and SIGINT too, unless the process ignores them. If
    a question still runs, the process ends here: the engine must not be torn down below it, and
    nothing is written.
    """
    asyncio.run(_run(app))
    code = app.return_code or 0
    code = code if code > SIGNALLED or not code else TROUBLE
    if not app.session.close():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


async def _run(app: Owner) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(LeavableThreads())
    if sys.platform != "win32":  # its event loop takes no signals
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # who started it wants that
                loop.add_signal_handler(number, _exit, app, SIGNALLED + number)
    await app.run_async()


def _exit(app: Owner, code: int) -> None:
    app.exit(return_code=code)


class LeavableThreads(ThreadPoolExecutor):
    """A daemon thread a call; closing waits for none, so a long query cannot hold up quitting.

    A pool only by type, which is what an event loop asks of its default executor.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call *fn* in a new thread."""
        future: Future[T] = Future()
        threading.Thread(
            target=_call, args=(future, lambda: fn(*args, **kwargs)), daemon=True
        ).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to do: the threads end with their calls or with the process."""


def _call(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it travels to whoever waits, like a result
        future.set_exception(error)
    else:
        future.set_result(result)
