"""Processes of our own that answer requests: what ends one of them ends nothing else.

The engine may die of a question, of a damaged file or a full disk, and its process with it.
"""

from __future__ import annotations

import os
import pickle
import queue
import selectors
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from graphstore.own_python import own_environment, own_python

_MOST_SAID = 2**16


class ChildProcess:
    """A fresh Python that runs ``main`` of *module*, which calls :func:`serve`.

    A copy of this process would lack the threads of its libraries. It ends when this process
    does, however that ends.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._ending = threading.Lock()
        self._said, writing_end = os.pipe()
        if hasattr(os, "set_blocking"):  # nobody reads it while the child lives
            os.set_blocking(writing_end, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                own_python("-c", f"from {module} import main; main()", *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=writing_end,
                env=own_environment(),
                start_new_session=True,  # Ctrl-C is for us: we end it
            )
        except BaseException:
            os.close(self._said)
            raise
        finally:
            os.close(writing_end)
        self.said = b""
        _CHILDREN.add(self)

    @property
    def ended(self) -> int | None:
        """The exit status, negative for a signal; None while it lives."""
        return self._process.poll()

    def ask(self, request: object) -> Any:
        """The answer; None if the child ended instead. Then ``said`` is what it said last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            # past Python's buffer, which a forked copy of this process would have too
            unsent = memoryview(pickle.dumps(request))
            while unsent:
                unsent = unsent[os.write(self._process.stdin.fileno(), unsent) :]
            # Ctrl-C ends this wait; a read is started again where a library (polars) asks for that
            if sys.platform != "win32":  # which knows of sockets only what can be read
                with selectors.DefaultSelector() as answered:
                    answered.register(self._process.stdout, selectors.EVENT_READ)
                    answered.select()
            return pickle.load(self._process.stdout)  # noqa: S301 - our own
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.end()
            return None

    def kill(self) -> None:
        """End it from another thread; who waits for an answer gets None."""
        self._process.kill()

    def end(self) -> None:
        """End it and let go of all it has."""
        self._process.kill()
        self._process.wait()
        with self._ending:
            if self._said >= 0:
                self.said = os.read(self._said, _MOST_SAID)
            self._close()

    def disown(self) -> None:
        """What a forked copy of this process does: the child is its parent's."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


_CHILDREN: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _disown_all() -> None:
    for child in list(_CHILDREN):
        child.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def serve(answer: Callable[[Any], object]) -> None:
    """Answer requests from standard input.

    When the parent ends or wants no more, so does this process, whatever it does just now.
    """
    # Nothing but answers may reach the parent, whatever libraries print.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        pickle.dump(answer(requests.get()), answers)
        answers.flush()


def _listen(requests: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - our own
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)
