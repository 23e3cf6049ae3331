"""What the process that runs a model gives up before it sees the model.

Each part is tried by itself: what a system does not allow is told, and the rest holds all the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/opt", "/nix", "/proc", "/sys"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
)
_TCP_SINCE = 4


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the isolation that does not hold here, and why."""

    part: str
    reason: str


def confine(readable: Iterable[Path], folder: Path) -> tuple[Gap, ...]:
    """Give up the network, all files but those below *readable*, and writing but in *folder*.

    To be called before the process has a second thread. Returns what could not be done.
    """
    if sys.platform != "linux":
        why = "only Linux can be asked for it"
        parts = ("no network", "one writable folder", "a limit of memory")
        return tuple(Gap(part, why) for part in parts)
    read = tuple(readable)
    _first_to_go()
    return tuple(_gaps(read, folder))


def _gaps(read: tuple[Path, ...], folder: Path) -> Iterator[Gap]:
    network = _without_network(read)
    try:
        version = restrict_files((*_needed(), *read), (folder, Path("/dev/null")))
    except OSError as error:
        yield Gap("one writable folder", f"no Landlock: {error.strerror}")
        version = 0
    if network and version < _TCP_SINCE:
        yield Gap("no network", network)
    elif network:
        yield Gap("no network but UDP", network)


def _without_network(read: tuple[Path, ...]) -> str:
    """Go where there is no network; the reason if that is not possible."""
    kind = _NEW_NET if _needs_root(read) else _NEW_USER | _NEW_NET
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kind) != 0:
        return f"no namespace of its own: {os.strerror(ctypes.get_errno())}"
    if kind & _NEW_USER:
        with suppress(OSError):  # the process has no name then; what it may do is the same
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    return ""


def _needs_root(read: tuple[Path, ...]) -> bool:
    """Whether files are read only because root may: in a namespace of its own root may not."""
    if os.geteuid() != 0:
        return False
    stats = (path.stat() for path in read if path.exists())
    return any(stat.st_uid != 0 and not stat.st_mode & 0o004 for stat in stats)


def _needed() -> Iterator[Path]:
    """What Python and the frameworks are made of."""
    yield from map(Path, _SYSTEM)
    yield from map(Path, dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix)))
    yield from (Path(path) for path in sys.path if path)
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from (Path(library) for library in libraries if library)


def _first_to_go() -> None:
    """Where the machine has no memory left, the kernel is to end this process and no other."""
    with suppress(OSError):  # then it chooses itself
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


# Linux's Landlock: a process gives up files, the network and signals it does not need.
#
# There is no package for it that is kept well, and its interface is three system calls.


# The same numbers on every architecture Python runs on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NET_TCP = 0b11
"""Binding and connecting, from version 4 on."""
_OUTSIDE = 0b11
"""Abstract Unix sockets and signals to processes outside, from version 6 on."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def restrict_files(read: Iterable[Path], write: Iterable[Path]) -> int:
    """Let this thread and what it starts read below *read* only, write below *write* only.

    Returns the version of Landlock: from 4 on it closes TCP, from 6 on signals to others, too.

    Raises:
        OSError: the kernel cannot or does not do it; then nothing has changed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = _checked(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))
    handled = max(rights for since, rights in _FILES_BY_VERSION.items() if since <= version)
    rules = _Ruleset(handled, _NET_TCP if version >= 4 else 0, _OUTSIDE if version >= 6 else 0)
    # Older kernels know a shorter structure.
    size = 8 if version < 4 else 16 if version < 6 else 24
    descriptor = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    ruleset = _checked(descriptor)
    try:
        for path in read:
            _allow(libc, ruleset, path, _READ & handled)
        for path in write:
            _allow(libc, ruleset, path, handled)
        _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        if not path.is_dir():
            rights &= _OF_FILES
        rule = _PathBeneath(rights, opened)
        _checked(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
