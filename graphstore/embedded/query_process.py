"""Users' own questions, asked in a process of its own whose memory is limited.

The engine makes a whole answer before it hands out the first row, and its buffer size does not
bound that: ``UNWIND range(1, 100000000) AS x RETURN x`` takes 18 GB whatever the limit of rows.
Here the system refuses the memory instead, and only the child ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher.limits import QueryLimits
from graphstore.embedded.child_process import ChildProcess, serve
from graphstore.embedded.database import ReadDatabase, too_long
from graphstore.errors import DivergraphError, QueryError, StoreError

MEMORY_VARIABLE = "DIVERGRAPH_QUERY_MEMORY"
DEFAULT_MEMORY = 2048
"""MiB a question may take beside the database's file; joins over a million ops take 1 GiB."""
_GRACE_SECONDS = 1.0
"""So long after its time the engine may take to end a question by itself."""
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "unable to allocate", "cannot allocate")
_MODULE = "graphstore.embedded.query_process"


class QueryProcesses:
    """Processes that read one database file; each answers one question at a time.

    They are started when they are needed and kept for the next question.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = _memory()
        self._lock = threading.Lock()
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        self._retired = self._closed = False

    def ask(
        self, cypher: str, params: Mapping[str, object], limits: QueryLimits, before: str = ""
    ) -> QueryResult:
        """The rows of a question; as of :meth:`ReadDatabase.ask`.

        Raises:
            QueryError: also if it takes more memory than it may.
        """
        stopped, late = limits.cancellation or Cancellation(), threading.Event()
        with self._process() as process:
            with stopped.stopping(process.kill):
                process.ask(None)  # one that still starts takes nothing of the question's time
                with _killed_after(process, limits.timeout, late):
                    answer = process.ask(
                        (cypher, dict(params), limits.limit, limits.timeout, before)
                    )
            if stopped.cancelled or late.is_set():
                # killed while it answered, perhaps: it must not be kept as one that lives
                process.end()
        if isinstance(answer, QueryResult):
            return answer
        stopped.check()
        if answer is not None:
            raise answer
        if self._closed:
            raise StoreError("the store was closed while a query ran")
        if late.is_set():
            raise too_long(limits.timeout)
        raise _too_large(self._memory) if _is_memory(process) else _deadly()

    def retire(self) -> None:
        """End the processes; those that answer just now, when they have."""
        with self._lock:
            self._retired = True
            while self._idle:
                self._idle.pop().end()

    def close(self) -> None:
        """End the processes and the questions that still run."""
        self.retire()
        with self._lock:
            self._closed = True
            for process in self._busy:
                process.kill()

    @contextmanager
    def _process(self) -> Iterator[ChildProcess]:
        """A process that answers nothing else; one that died or was killed is not kept."""
        with self._lock:
            process = self._idle.pop() if self._idle else self._started()
            self._busy.add(process)
        try:
            yield process
        except BaseException:
            # Ctrl-C, say: its answer is still to come and would be taken for the next one's
            process.end()
            raise
        finally:
            with self._lock:
                self._busy.discard(process)
                if process.ended is None and not self._retired:
                    self._idle.append(process)
                else:
                    process.end()

    def _started(self) -> ChildProcess:
        return ChildProcess(_MODULE, str(self._path), str(self._memory))


def _memory() -> int:
    """MiB a question may take."""
    megabytes = os.environ.get(MEMORY_VARIABLE, "")
    if not megabytes:
        return DEFAULT_MEMORY
    if not megabytes.isdecimal() or not int(megabytes):
        raise QueryError(f"{MEMORY_VARIABLE}={megabytes} is no number of MiB")
    return int(megabytes)


@contextmanager
def _killed_after(
    process: ChildProcess, timeout: float | None, late: threading.Event
) -> Iterator[None]:
    """In the block *process* is killed a second after its time; then *late* is set."""
    if timeout is None:
        yield
        return

    def kill() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(timeout + _GRACE_SECONDS, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_memory(process: ChildProcess) -> bool:
    """Whether it ended for want of memory: said so, or was killed by the system."""
    output = process.said.decode(errors="replace").lower()
    by_system = sys.platform != "win32" and process.ended == -signal.SIGKILL
    return by_system or any(word in output for word in ("memoryerror", *_OUT_OF_MEMORY))


def _deadly() -> QueryError:
    return QueryError(
        "the embedded engine died of the query: nested too deep, or a defect of the engine",
        hint="write it otherwise; the store is as it was",
    )


def _too_large(memory: int) -> QueryError:
    return QueryError(
        f"the query needs more memory than {memory} MiB",
        hint=f"narrow it, or set {MEMORY_VARIABLE} to more MiB",
    )


def main() -> None:
    """Answer questions from standard input until it ends: what the child does."""
    path, memory = Path(sys.argv[1]), int(sys.argv[2])
    database: ReadDatabase | DivergraphError
    try:
        database = ReadDatabase(path)
    except StoreError as error:
        database = error
    _limit_memory(memory)
    serve(lambda question: question is None or _result(database, memory, *question))


def _result(
    database: ReadDatabase | DivergraphError,
    memory: int,
    cypher: str,
    params: Mapping[str, object],
    limit: int | None,
    timeout: float | None,
    before: str,
) -> QueryResult | DivergraphError:
    if isinstance(database, DivergraphError):
        return database
    try:
        return database.ask(cypher, params, QueryLimits(limit, timeout), before)
    except MemoryError:
        return _too_large(memory)
    except DivergraphError as error:
        message = str(error).lower()
        return _too_large(memory) if any(word in message for word in _OUT_OF_MEMORY) else error


def _limit_memory(memory: int) -> None:
    """Let this process take *memory* MiB more than it has, where the system can limit that."""
    if sys.platform != "linux":  # macOS knows the limit and does not heed it
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    address_space = pages * resource.getpagesize() + memory * 2**20
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        address_space = min(address_space, hard)
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
