"""Batches done by processes beside this one, each known by its own connection.

Which batch a process that died was at is therefore known: only that one is done again, in
halves, until the item that kills is alone.
"""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeAlias, TypeVar

from divergraph.jobs.work import Batch, OpenBatches, Stopped, Work
from divergraph.jobs.worker import serve
from graphstore.errors import DivergraphError
from graphstore.own_python import own_environment, own_python

T = TypeVar("T")
R = TypeVar("R")

_Process: TypeAlias = "multiprocessing.process.BaseProcess | subprocess.Popen[bytes]"

DIED = "the process that read it died twice: out of memory, or the file was cut meanwhile"
_LOOK_SECONDS = 0.2
_DEATHS_IN_A_ROW = 40
_THREADED = ("ladybug", "onnxruntime", "tensorflow", "distributed")
"""Libraries with threads of their own, which a forked copy of this process would lack."""


class ProcessExecutor:
    """*workers* processes on this machine, started when the first batch is there."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def results(
        self, work: Work[T, R], items: Sequence[T], batches: Iterable[Batch], stopped: Stopped
    ) -> Generator[tuple[Batch, list[R]], None, None]:
        """Each batch, or the parts it was done in, as it gets done.

        Raises:
            DivergraphError: workers die whatever they are given.
        """
        todo = OpenBatches(batches)
        crew = _Crew(work, items)
        deaths = 0
        try:
            while not stopped():
                crew.hand_out(todo, self.workers)
                if not crew.busy:
                    return
                for worker, answer in crew.answers():
                    batch = worker.batch
                    assert batch is not None
                    worker.batch = None
                    if isinstance(answer, _Died):
                        deaths += 1
                        crew.dismiss(worker)
                        if deaths > _DEATHS_IN_A_ROW:
                            raise DivergraphError(
                                "the worker processes die one after the other",
                                hint="--jobs 1 does the work in this process",
                            )
                        if not todo.again(batch):
                            yield batch, [work.lost(items[batch[0]], DIED)]
                        continue
                    if isinstance(answer, Exception):
                        raise answer
                    deaths = 0
                    yield batch, answer
        finally:
            crew.end()

    def close(self) -> None:
        """Nothing is held: workers live as long as one job."""


class _Died:
    """Stands for the answer of a worker that is gone."""


class _Worker:
    """One process, the connection to it, and the batch it is at."""

    def __init__(
        self, work: Work[Any, Any], items: Sequence[Any], others: list[Connection[Any, Any]]
    ) -> None:
        """*others* are the connections to the workers there are."""
        self._work, self._items = work, items
        self.batch: Batch | None = None
        ours, theirs = Pipe()
        self.connection: Connection[Any, Any] = ours
        with theirs, _without_interrupts():
            if _may_fork():
                self._has_items = True
                self._process: _Process = _forked(theirs, [*others, ours], work, items)
            else:
                self._has_items = False
                self._process = _started(theirs)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def give(self, batch: Batch) -> None:
        """Send *batch*: the numbers alone to a copy of this process, which has the items."""
        self.batch = batch
        message: object = batch
        if not self._has_items:
            message = self._work, [self._items[number] for number in batch]
        with suppress(BrokenPipeError, ConnectionResetError):  # told by its answer
            self.connection.send(message)

    def answer(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            return _Died()

    def end(self) -> None:
        """Kill the process: it holds nothing but what it was reading."""
        self.connection.close()
        self._process.kill()
        if isinstance(self._process, subprocess.Popen):
            self._process.wait()
        else:
            self._process.join()
            self._process.close()


class _Crew:
    """The workers there are."""

    def __init__(self, work: Work[Any, Any], items: Sequence[Any]) -> None:
        self._work, self._items = work, items
        self._workers: list[_Worker] = []

    @property
    def busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.batch is not None]

    def hand_out(self, todo: OpenBatches, limit: int) -> None:
        """Give every idle worker a batch, hiring up to *limit* while there is one."""
        idle = [worker for worker in self._workers if worker.batch is None]
        while idle or len(self._workers) < limit:
            batch = todo.next()
            if batch is None:
                return
            if idle:
                worker = idle.pop()
            else:
                others = [other.connection for other in self._workers]
                worker = _Worker(self._work, self._items, others)
                self._workers.append(worker)
            worker.give(batch)

    def answers(self) -> Iterator[tuple[_Worker, Any]]:
        """The workers that are done, with what they say; none if all are still busy."""
        busy = {worker.connection: worker for worker in self.busy}
        for connection in wait(list(busy), _LOOK_SECONDS):
            worker = busy[connection]  # type: ignore[index]  # what was waited for
            yield worker, worker.answer()

    def dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()

    def end(self) -> None:
        while self._workers:
            self._workers.pop().end()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here never hears Ctrl-C, which goes to every process of a terminal:
    the one that leads ends the others."""
    was = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, was)


def _may_fork() -> bool:
    """True where a copy of this process works: no threads that would be missing in it.

    Those of OpenBLAS are no trouble, it starts them anew in the copy; nor is that of a
    progress bar, which draws what a copy never does.
    """
    threads = (thread for thread in threading.enumerate() if not _draws(thread))
    return (
        sys.platform == "linux"
        and next(threads) is threading.current_thread()
        and next(threads, None) is None
        and not any(name in sys.modules for name in _THREADED)
    )


def _draws(thread: threading.Thread) -> bool:
    return type(thread).__module__.startswith("rich.")


def _forked(
    theirs: Connection[Any, Any],
    ours: list[Connection[Any, Any]],
    work: Work[Any, Any],
    items: Sequence[Any],
) -> multiprocessing.process.BaseProcess:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_serve_alone, args=(theirs, ours, work, items), daemon=True)
    with warnings.catch_warnings():
        # Python counts OpenBLAS's threads too when it warns of threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _serve_alone(
    theirs: Connection[Any, Any],
    ours: list[Connection[Any, Any]],
    work: Work[Any, Any],
    items: Sequence[Any],
) -> None:
    """Serve without a hold on the other ends, whose closing ends us."""
    for connection in ours:
        connection.close()
    serve(theirs, work, items)


def _started(theirs: Connection[Any, Any]) -> subprocess.Popen[bytes]:
    """A fresh Python. Not by multiprocessing, which would run the user's script again."""
    code = "from divergraph.jobs.worker import main; main()"
    fd = theirs.fileno()
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        own_python("-c", code, str(fd)),
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        env=own_environment(),
    )
