"""What a model that took its process over would try; done where models run."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any


def what_went_wrong(attempt: Any) -> str:
    """The name of the error it ends with; empty if it works."""
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return ""


def nothing() -> None:
    """No framework has to be imported."""


def connect(_: Path, port: int) -> str:
    return what_went_wrong(lambda: socket.create_connection(("127.0.0.1", port), 2).close())


def send_datagram(_: Path, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return what_went_wrong(lambda: sender.sendto(b"secret", ("127.0.0.1", port)))


def write(_: Path, path: Path) -> str:
    return what_went_wrong(lambda: path.write_text("was here"))


def write_in_own_folder(folder: Path) -> str:
    return what_went_wrong(lambda: (folder / "mine").write_text("was here"))


def read(_: Path, path: Path) -> str:
    return what_went_wrong(path.read_bytes)


def remove(_: Path, path: Path) -> str:
    return what_went_wrong(path.unlink)


def signal_parent(_: Path) -> str:
    return what_went_wrong(lambda: os.kill(os.getppid(), 0))


def take_memory(_: Path, mib: int) -> str:
    return str(len(bytearray(mib << 20)))


_KEPT: list[Any] = []


def keep_memory(_: Path, mib: int) -> str:
    """Memory that is never given back, as libraries keep it."""
    _KEPT.append(mmap.mmap(-1, mib << 20))
    return str(len(_KEPT))


def fail_without_a_word_when_full(_: Path) -> None:
    """As C code that is refused memory and sets no error."""
    what_went_wrong(lambda: [keep_memory(_, 2) for _number in range(1000)])
    raise SystemError("error return without exception set")


def take_memory_in_copies(_: Path, copies: int, mib: int) -> str:
    """How many of so many copies of the process got so much memory each."""
    pids = []
    for _number in range(copies):
        pid = os.fork()
        if pid == 0:
            try:
                got = len(bytearray(mib << 20))
            except MemoryError:
                got = 0
            os._exit(bool(got))
        pids.append(pid)
    return str(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))


def leave_a_copy(_: Path) -> str:
    """The number of a process that goes on by itself."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    return str(pid)


def end_by(_: Path, number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def read_nowhere(_: Path) -> None:
    ctypes.string_at(0)


def sleep(_: Path, seconds: float) -> None:
    time.sleep(seconds)


def fill_disk(folder: Path, mib: int) -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return what_went_wrong(lambda: (folder / "large").write_bytes(bytes(mib << 20)))


def answer_rubbish(_: Path) -> None:
    for number in range(3, 20):
        what_went_wrong(lambda number=number: os.write(number, b"\xff" * 64))
    time.sleep(60)


def answer_of_objects(_: Path) -> Any:
    return {1, 2}
