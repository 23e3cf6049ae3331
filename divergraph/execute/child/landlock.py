"""Linux's Landlock: a process gives up files, the network and signals it does not need.

There is no package for it that is kept well, and its interface is three system calls.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

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
