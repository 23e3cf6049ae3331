"""Processes that run models: started when one is opened, kept for the next of the same place."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO

from divergraph.execute.child.limits import (
    BrokenExecutorError,
    ModelEndedError,
    ModelLimits,
    address_space,
)
from divergraph.execute.child.wire import AnswerError, read_answer, send_command
from graphstore.errors import DivergraphError, ExecutionError, ImportFormatError, InputError
from graphstore.own_folder import OwnFolder
from graphstore.own_python import own_environment, own_python

Asked = Callable[[Mapping[str, Any]], object]
"""Answers what the process asks back."""

CHILDREN = sys.platform != "win32"
"""Whether this system has what such processes need."""

_CODE = "from divergraph.execute.child.main import main; main()"
_HOMES = ("HOME", "KERAS_HOME", "TMPDIR")
"""Where libraries look for settings and put what they write."""
_PIPE = 1 << 20
_LOADING_SECONDS = 300
_LAST_WORDS = 1 << 14
_KEPT_BY_LIBRARIES = 1 << 27
"""Bytes: some threads and what the allocator reserves for each."""
_ANSWERS_OVER_MEMORY = 1 << 24
_KINDS: Mapping[str, type[DivergraphError]] = {
    kind.__name__: kind
    for kind in (InputError, ExecutionError, ModelEndedError, BrokenExecutorError)
}


@dataclass(frozen=True, slots=True)
class Place:
    """What tells processes apart: the files they may read, from where, their limits, and what
    framework *loads* imports: before limits hold, so that it does not count.
    """

    readable: tuple[Path, ...]
    limits: ModelLimits
    loads: Callable[[], object] | None
    cwd: str = field(default_factory=os.getcwd)


class ModelProcess:
    """A process that runs the models of one place; one question at a time."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.users = 0
        self.numbers = count(1)
        self._limits = place.limits
        self._lock = RLock()
        self._asked: dict[int, Asked] = {}
        self._dropped: list[int] = []
        self._loads = place.loads
        self._size = 0
        self._seconds = place.limits.seconds
        self._own = OwnFolder("model")
        self._folder = str(self._own.path)
        self._words: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._ending: ModelEndedError | None = None
        arguments = {
            "readable": list(map(str, place.readable)),
            "folder": self._folder,
            "memory": place.limits.memory,
            "seconds": place.limits.seconds,
            "parent": os.getpid(),
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            # A fresh Python: a copy of this one would lack the threads of its libraries.
            own_python("-c", _CODE, json.dumps(arguments)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            bufsize=0,
            env=own_environment(**dict.fromkeys(_HOMES, self._folder)),
            start_new_session=True,  # Ctrl-C is for us: we end it
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._into, False)
        _widen(self._into, self._from)

    @property
    def folder(self) -> Path:
        """The one folder the process may write to."""
        return self._own.path

    @property
    def ended(self) -> bool:
        """Whether it can be asked no more."""
        return self._ending is not None

    @property
    def worn(self) -> bool:
        """Whether models before took memory and did not give it back: the next has too little."""
        grown = (
            address_space(self._process.pid) - self._size if self._size and not self.ended else 0
        )
        return grown > max((self._limits.memory << 20) // 4, _KEPT_BY_LIBRARIES)

    def load(self) -> None:
        """Have the framework of its place imported, once, before limits hold and seconds count."""
        if self._loads is not None:
            self._seconds = max(self._limits.seconds, _LOADING_SECONDS)
            self.ask("load", self._loads)
            self._seconds = self._limits.seconds
            self._loads = None
            self._size = address_space(self._process.pid)

    def ask(self, *command: object) -> dict[str, Any]:
        """What the process answers.

        Raises:
            ModelEndedError: it ended instead, and cannot be asked any more.
            DivergraphError: what it was asked for failed.
        """
        with self._lock:
            try:
                answer, raised = self._exchanged(command)
            except BaseException as error:
                # Ctrl-C, say: its answer is still to come and would be taken for the next one's
                if isinstance(error, AnswerError):
                    message = "the process that ran the model gave what is no answer"
                    raise self._end(ModelEndedError(message)) from error
                if not self.ended:
                    self._end(ModelEndedError("the model was interrupted"))
                raise
        if raised is not None:
            raise raised
        if "failed" in answer:
            raise _error(answer["failed"])
        return answer

    def answering(self, number: int, answerer: Asked) -> None:
        """Let *answerer* answer what the process asks under *number*."""
        self._asked[number] = answerer

    def drop(self, number: int) -> None:
        """Let what has this number go, with the next question."""
        self._asked.pop(number, None)
        self._dropped.append(number)

    def close(self) -> None:
        """End the process and remove what it wrote."""
        with self._lock:
            if not self.ended:
                self._end(ModelEndedError("the model was closed while it ran"))

    def _exchanged(self, command: object) -> tuple[dict[str, Any], Exception | None]:
        dropped, self._dropped = self._dropped, []
        raised: Exception | None = None
        self._say((*dropped,), command)
        while True:
            answer = self._heard()
            if "asks" not in answer:
                return answer, raised
            try:
                reply = self._asked[answer["asks"]](answer)
            except Exception as error:
                if self.ended:
                    raise
                raised = error
                self._say((), ("raised",))
            else:
                self._say((), ("answer", reply))

    def _say(self, dropped: tuple[int, ...], command: object) -> None:
        if self._ending is not None:
            raise self._ending
        until = time.monotonic() + self._seconds

        def write(data: bytes | memoryview) -> None:
            unsent = memoryview(data)
            while unsent.nbytes:
                self._wait(self._into, select.POLLOUT, until)
                with suppress(BlockingIOError):
                    unsent = unsent[os.write(self._into, unsent) :]

        try:
            send_command(write, (dropped, command))
        except BrokenPipeError:
            raise self._died() from None

    def _heard(self) -> dict[str, Any]:
        until = time.monotonic() + self._seconds

        def fill(buffer: memoryview) -> None:
            unfilled = buffer
            while unfilled.nbytes:
                self._wait(self._from, select.POLLIN, until)
                got = os.readv(self._from, [unfilled])
                if not got:
                    raise self._died()
                unfilled = unfilled[got:]

        return read_answer(fill, (self._limits.memory << 20) + _ANSWERS_OVER_MEMORY)

    def _wait(self, what: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(what, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise self._end(self._limits.out_of_time())

    def _died(self) -> ModelEndedError:
        return self._end(None)

    def _end(self, why: ModelEndedError | None) -> ModelEndedError:
        """End the process and all it started; None: it says itself why it ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - _LAST_WORDS))
        words = self._words.read().decode("utf-8", "replace")
        for pipe in (self._process.stdin, self._process.stdout, self._words):
            assert pipe is not None
            pipe.close()
        self._own.remove()
        self._asked.clear()
        self._ending = why or self._limits.ending(code, words)
        return self._ending


def _widen(*pipes: int) -> None:
    """Large arrays wake the other side once for each filling of a pipe."""
    if sys.platform != "linux":
        return
    import fcntl  # not on every system

    for pipe in pipes:
        with suppress(OSError):  # a system where all pipes together have a limit
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _error(answer: Mapping[str, Any]) -> DivergraphError:
    what, where, hint = (str(answer[key]) for key in ("what", "where", "hint"))
    if answer["kind"] == ImportFormatError.__name__:
        format_error = ImportFormatError(where, what, hint=hint)
        format_error.where = where
        return format_error
    return _KINDS.get(str(answer["kind"]), DivergraphError)(what, where=where, hint=hint)


class _Processes:
    """The processes of this one. One that nobody uses is kept, for the next model."""

    def __init__(self) -> None:
        self._lock = RLock()  # executors that are forgotten give back whenever memory is tidied
        self._known: dict[Place, ModelProcess] = {}
        self._of_others: list[ModelProcess] = []

    def taken(self, place: Place) -> ModelProcess:
        with self._lock:
            process = self._known.get(place)
            if process is not None and not process.users and process.worn:
                process.close()
            if process is None or process.ended:
                process = self._known[place] = ModelProcess(place)
            process.users += 1
            self._end_unused(but=place)
            return process

    def given_back(self, process: ModelProcess) -> None:
        with self._lock:
            process.users -= 1
            self._end_unused(but=process.place)

    def close(self) -> None:
        with self._lock:
            for process in self._known.values():
                process.close()
            self._known.clear()

    def forget(self) -> None:
        """This is a copy of the process that started them: they are not ours."""
        self._lock = RLock()
        self._of_others += self._known.values()
        self._known = {}

    def _end_unused(self, *, but: Place) -> None:
        """Those of the same models are kept: a framework that gives up hands on to another."""
        for place, process in list(self._known.items()):
            other = replace(place, loads=but.loads) != but
            if process.ended or (not process.users and other):
                process.close()
                del self._known[place]


_PROCESSES = _Processes()
take_process = _PROCESSES.taken
give_back = _PROCESSES.given_back
atexit.register(_PROCESSES.close)
if CHILDREN:
    os.register_at_fork(after_in_child=_PROCESSES.forget)
