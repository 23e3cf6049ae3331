"""Work that Ctrl-C ends at once, though an engine is busy with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from divergraph.cli.say import say
from divergraph.jobs.waiting import wait_interruptible
from divergraph.outcomes import outcome_of_error
from graphstore.cancellation import Cancellation

_PATIENCE_SECONDS = 3.0
_STOPPED = 130

_T = TypeVar("_T")


def stoppable(work: Callable[[Cancellation], _T]) -> _T:
    """The value of *work*, done in a thread; Ctrl-C cancels it and raises KeyboardInterrupt.

    An engine keeps the thread it runs in from hearing signals, so it must be another one.
    What does not stop within a few seconds is left behind: the process ends with 130, or
    as of a bad query if it is the engine that lets its time pass.
    """
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as thread:
        done: Future[_T] = thread.submit(work, cancellation)
        try:
            wait_interruptible([done], lambda: _give_up(cancellation))
        except KeyboardInterrupt:
            cancellation.cancel()
            if wait([done], _PATIENCE_SECONDS).not_done:
                say("stopped", err=True)
                os._exit(_STOPPED)
            raise
        return done.result()


def _give_up(cancellation: Cancellation) -> None:
    """End the process if the engine does not end a query whose time is over."""
    if cancellation.stuck is not None:
        say(f"divergraph: {cancellation.stuck}", err=True)
        os._exit(outcome_of_error(cancellation.stuck).exit_code)
