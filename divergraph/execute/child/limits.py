"""How much a model may take, and what is said of one that took more."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from graphstore.errors import DivergraphError, ExecutionError, InputError

MEMORY_VARIABLE = "DIVERGRAPH_MODEL_MEMORY"
SECONDS_VARIABLE = "DIVERGRAPH_MODEL_SECONDS"
FOLDERS_VARIABLE = "DIVERGRAPH_MODEL_FOLDERS"
DEFAULT_SECONDS = 3600
"""Between two answers; an answer is a tensor, or a batch of re-run ops."""
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_FALLBACK = 4096
_HARDLY = 1 << 24
"""Bytes: a thread's stack and what the allocator takes at a time."""
_OUT_OF_MEMORY = (
    *("bad_alloc", "bad allocation", "failed to allocate memory", "oom when allocating"),
    *("cannot allocate memory", "unable to allocate", "memoryerror", "resource exhausted"),
    *("out of memory", "bad_array_new_length", "pthread_create() failed"),
)


class ModelEndedError(ExecutionError):
    """The process that ran the model is gone, and why."""


class BrokenExecutorError(DivergraphError):
    """An executor raised what it never should: trouble of its own, with one op or with all."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """``memory`` in MiB, beside what Python and the framework take; ``seconds`` for each answer."""

    memory: int
    seconds: int

    @classmethod
    def of_environment(cls) -> ModelLimits:
        """What the user set; else three quarters of this machine's memory, and an hour.

        Raises:
            InputError: a variable is no number.
        """
        memory = _number(MEMORY_VARIABLE, "MiB") or machine_memory() * 3 // 4
        return cls(memory, _number(SECONDS_VARIABLE, "seconds") or DEFAULT_SECONDS)

    def out_of_memory(self) -> ModelEndedError:
        """That the model took all it may."""
        return ModelEndedError(
            f"the model needs more memory than {self.memory} MiB",
            hint=f"set {MEMORY_VARIABLE} to more MiB",
        )

    def out_of_time(self) -> ModelEndedError:
        """That an answer took too long."""
        return ModelEndedError(
            f"the model computed for more than {self.seconds} s without a result",
            hint=f"set {SECONDS_VARIABLE} to more seconds",
        )

    def ending(self, code: int, words: str) -> ModelEndedError:
        """What ended a process with this exit code and these last *words*."""
        if is_out_of_memory(words):
            return self.out_of_memory()
        if code == -signal.SIGXCPU:
            return self.out_of_time()
        if code == -signal.SIGKILL:
            return ModelEndedError(
                "the process that ran the model was killed: the system had no memory left",
                hint=f"set {MEMORY_VARIABLE} to fewer MiB than {self.memory}",
            )
        how = f"exit code {code}"
        if code < 0:
            how = signal.Signals(-code).name if -code in _SIGNALS else f"signal {-code}"
        return ModelEndedError(f"the model crashed the process that ran it ({how})")


_SIGNALS = frozenset(int(signal_) for signal_ in signal.Signals)


def shared_folders() -> tuple[Path, ...]:
    """What the user lets all models read, beside their own folders: weights that are linked to."""
    named = os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep)
    return tuple(Path(folder).absolute() for folder in named if folder)


def is_out_of_memory(words: str) -> bool:
    """Whether an engine's words mean that memory was refused."""
    lower = words.lower()
    return any(words in lower for words in _OUT_OF_MEMORY)


def machine_memory() -> int:
    """MiB this machine has, or this container may take."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):  # not on every system
        return _FALLBACK
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        sizes += [int(text)] if text.isdecimal() else []
    return max(min(sizes) >> 20, 1)


def address_space(process: int) -> int:
    """Bytes of addresses a process has, or 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def is_full() -> bool:
    """Whether this process may hardly take more memory: what fails now fails for lack of it.

    Libraries often do not say so: one ends in Python's "error return without exception set".
    """
    if sys.platform != "linux":
        return False
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit != resource.RLIM_INFINITY and limit - address_space(os.getpid()) < _HARDLY


def hold(limits: ModelLimits) -> None:
    """Set the limits of this process, from what it has now on, where the system can."""
    if sys.platform != "linux":  # macOS knows the limit of memory and does not heed it
        return
    import resource

    more = limits.memory << 20
    _lower(resource.RLIMIT_AS, address_space(os.getpid()) + more)
    _lower(resource.RLIMIT_FSIZE, more)
    sys.dont_write_bytecode = True  # what the limit cuts of a module, Python would keep
    _lower(resource.RLIMIT_CORE, 0)


def hold_time(limits: ModelLimits) -> None:
    """Let the next answer take its seconds on all processors, should nobody end it before."""
    if sys.platform != "linux":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + limits.seconds * (os.cpu_count() or 1)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _lower(what: int, limit: int) -> None:
    import resource

    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(what, (limit, limit))


def _number(variable: str, unit: str) -> int:
    text = os.environ.get(variable, "")
    if text and (not text.isdecimal() or not int(text)):
        raise InputError(f"{variable}={text} is no number of {unit}")
    return int(text or 0)
