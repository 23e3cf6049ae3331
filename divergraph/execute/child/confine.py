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

from divergraph.execute.child.landlock import restrict_files

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
