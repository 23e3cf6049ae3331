"""Files written whole or not at all: reports, exports, backups."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from divergraph.outcomes import disk_failed
from graphstore.errors import InputError

_HINT = "give the name of a file in a folder you may write"


def check_place(path: Path, what: str = "file") -> None:
    """See that *path* can be written to, before the work is done for it.

    Raises:
        InputError: it is a folder, or its folder does not exist or may not be written;
            *what* names the thing in the message.
    """
    folder = path.parent
    try:
        if not folder.is_dir():
            raise InputError("no such folder", where=str(folder), hint="make it first")
        if path.is_dir():
            raise _unwritable(path, what, "it is a folder")
        if not os.access(folder if _is_replaced(path) else path, os.W_OK):
            raise _unwritable(path, what, "permission denied")
    except OSError as error:
        raise _unwritable(path, what, error.strerror or str(error)) from error


@contextmanager
def whole_file(path: Path, what: str = "file") -> Iterator[Path]:
    """The place to write to, a file that takes the place of *path* if the block succeeds.

    If the block fails, *path* stays as it was. A symbolic link stays one: what it leads to
    is replaced, and keeps its permissions. A device or pipe (``/dev/stdout``) is written to
    itself, never replaced.

    Raises:
        InputError: as :func:`check_place`; the disk is full.
    """
    check_place(path, what)
    try:
        if _is_replaced(path):
            with _replacing(path.resolve()) as part:
                yield part
        else:
            yield path
    except BrokenPipeError:
        raise  # whoever reads our output has seen enough
    except OSError as error:
        why = error.strerror or str(error)
        hint = "make room there, or write elsewhere" if disk_failed(error) else _HINT
        raise _unwritable(path, what, why, hint) from error


def _is_replaced(path: Path) -> bool:
    return path.is_file() or not path.exists()


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    part = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.part")
    try:
        part.touch(exist_ok=False)
        with suppress(FileNotFoundError):
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _unwritable(path: Path, what: str, why: str, hint: str = _HINT) -> InputError:
    return InputError(f"the {what} cannot be written: {why}", where=str(path), hint=hint)
