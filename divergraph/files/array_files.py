"""Arrays and bytes written into a folder, each file whole or not at all."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from divergraph.files.npy_file import write_npy, write_raw
from divergraph.files.whole_files import whole_file
from divergraph.outcomes import disk_failed
from graphstore.errors import InputError
from importers.dumps.names import MAPPING

Array = NDArray[Any]

_MAX_NAME = 255
_CHUNK = 1 << 24
_TEXT_FORMATS = {"f2": "%.5g", "f4": "%.9g", "f8": "%.17g", "c8": "%.9g", "c16": "%.17g"}


class OutputFolder:
    """The folder files are written to; nothing is ever written outside of it.

    A name of 255 bytes or more is replaced by 32 hexadecimal digits, which ``mapping.csv``
    explains, as msaccucmp does it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[Path] = []
        self.disk_failed = False
        self._names: dict[str, str] = {}
        self._long: dict[str, str] = {}
        self._inner: dict[str, OutputFolder] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(
                "there is a file in the place of this folder", where=str(path)
            ) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(f"the folder cannot be made: {why}", where=str(path)) from error

    def inner(self, name: str) -> OutputFolder:
        """The folder *name* in it, made if there is none; of an empty *name* itself."""
        plain = _plain(name)
        if plain and plain not in self._inner:
            self._inner[plain] = OutputFolder(self.path / plain)
            self._inner[plain].written = self.written
        return self._inner[plain] if plain else self

    def npy(self, name: str, array: Array) -> None:
        """Write *array* as ``.npy``."""

        def write(part: Path) -> None:
            part.unlink()  # the writer makes its file itself
            write_npy(part, array)

        self._place(name, write)

    def raw(self, name: str, array: Array) -> None:
        """Write the elements of *array* in C order and nothing else."""
        self._place(name, lambda part: write_raw(part, array))

    def text(self, name: str, array: Array) -> None:
        """Write *array* as ``numpy.loadtxt`` reads it: a line for each row of the last axis."""
        form = _TEXT_FORMATS.get(f"{array.dtype.kind}{array.dtype.itemsize}", "%d")
        flat = array.ndim < 2 or not array.size
        rows = array.reshape(-1) if flat else array.reshape(-1, array.shape[-1])
        shape = ",".join(map(str, array.shape)) or "scalar"

        def write(part: Path) -> None:
            with part.open("w", encoding="ascii") as file:
                file.write(f"# {array.dtype.name} {shape}\n")
                np.savetxt(file, rows, fmt=form)

        self._place(name, write)

    def copied(self, name: str, source: BinaryIO, size: int) -> None:
        """Write the next *size* bytes of *source*."""

        def write(part: Path) -> None:
            unread = size
            with part.open("wb") as file:
                while unread > 0:
                    piece = source.read(min(unread, _CHUNK))
                    if not piece:
                        raise InputError("the file ends too early", where=name)
                    file.write(piece)
                    unread -= len(piece)

        self._place(name, write)

    def words(self, name: str, content: str) -> None:
        """Write *content* as UTF-8 text."""
        self._place(name, lambda part: _write_text(part, content))

    def finish(self) -> None:
        """Explain shortened names in ``mapping.csv``, which keeps the lines it has."""
        for inner in self._inner.values():
            inner.finish()
            self.disk_failed |= inner.disk_failed
        if not self._long:
            return
        path = self._checked(MAPPING)
        lines = {short: f"{short},{full}\n" for short, full in self._long.items()}
        old = path.read_text("utf-8", "replace").splitlines(keepends=True) if path.exists() else []
        other_lines = [line for line in old if line.partition(",")[0] not in lines]
        with whole_file(path) as part:
            _write_text(part, "".join((*other_lines, *lines.values())))

    def forget(self, name: str) -> None:
        """Remove the file *name* of an earlier conversion."""
        path = self.path / name
        if path.is_file() and not path.is_symlink():
            path.unlink()

    def told(self, name: str, content: str) -> None:
        """Write a list for the user that is no result."""
        with whole_file(self._checked(name)) as part:
            _write_text(part, content)

    def _place(self, name: str, write: Callable[[Path], None]) -> None:
        full = _plain(name)
        short = self._shortened(full)
        if short in self._names:
            what = "another file of this conversion has the same name"
            raise InputError(what, where=short, hint="convert the folders one by one")
        path = self._checked(short)
        try:
            with _told_memory(name), whole_file(path) as part:
                write(part)
        except InputError as error:
            self.disk_failed |= disk_failed(error)
            raise
        self._names[short] = full
        self.written.append(path)
        if short != full:
            self._long[short] = full

    def _shortened(self, name: str) -> str:
        if len(os.fsencode(name)) < _MAX_NAME:
            return name
        return uuid.uuid3(uuid.NAMESPACE_DNS, name).hex + name[name.rindex(".") :]

    def _checked(self, name: str) -> Path:
        """The path of *name*: a link or a device of this name would lead elsewhere."""
        path = self.path / name
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return path
        if not stat.S_ISREG(mode):
            raise InputError("something that is not a file has this name", where=str(path))
        return path


def _plain(name: str) -> str:
    return "".join(char if char.isprintable() and char not in "/\\" else "_" for char in name)


def _write_text(part: Path, content: str) -> None:
    part.write_text(content, encoding="utf-8", errors="backslashreplace")


@contextmanager
def _told_memory(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise InputError("there is not enough memory for this tensor", where=name) from error
