"""Headers of ``.npy`` files, and small ones whole, read fast and without ever unpickling.

A dump has thousands of files but few distinct headers, so parsed headers are cached by
their bytes. Format: versions 1 to 3 of ``numpy.lib.format``. A small file takes one read;
whatever is not plain there, or not as expected, is left to the reader that tells what is wrong.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import descr_to_dtype
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.dumps.index import OPEN_FLAGS, DamagedError
from importers.source import read_at

_MAGIC = b"\x93NUMPY"
_FIRST_READ = 512
_MAX_HEADER = 10_000
_KEYS = {"descr", "fortran_order", "shape"}
# numpy evaluates a descr with commas as a small language of its own.
_NO_TYPE = (
    TypeError,
    ValueError,
    LookupError,
    SyntaxError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
_PYTHON2_LONG = re.compile(r"(?<=\d)L\b")

_DTYPES = {str(dtype): dtype for dtype in DType if dtype.numpy and dtype.numpy.name == dtype.value}
_OTHER_KINDS = {
    "U": "text",
    "S": "text",
    "M": "dates",
    "m": "spans of time",
    "O": "Python objects, which are never unpickled",
    "V": "records",
}


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a ``.npy`` header says; ``dtype`` may be of either byte order."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool
    data_offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * self.dtype.itemsize

    def element_type(self, expected: DType | None = None) -> DType:
        """The element type in our names.

        numpy has no bfloat16 or 8-bit float and saves them as raw bytes; *expected*
        (from the graph) then says what they are.

        Raises:
            DamagedError: a type that is no tensor element (object, structured, text).
        """
        dtype = _DTYPES.get(self.dtype.name)
        if dtype is not None:
            return dtype
        raw = self.dtype.kind == "V" and self.dtype.names is None and not self.dtype.shape
        bits = expected.bits if expected is not None and expected.numpy is None else None
        if raw and expected is not None and bits == self.dtype.itemsize * 8:
            return expected
        raise DamagedError(f"elements are {self._words(raw)}", Reason.DTYPE_UNSUPPORTED)

    def ref(
        self, path: Path, key: tuple[str, TensorIO, int], expected: DType | None = None
    ) -> DumpTensorRef:
        """The array as the tensor *key* of the ``.npy`` file at *path*.

        Raises:
            DamagedError: a type that is no tensor element.
        """
        dtype = self.element_type(expected)
        return DumpTensorRef(
            path, DumpFormat.NPY, *key, dtype, self.shape, self.data_offset, self.nbytes
        )

    def _words(self, raw: bool) -> str:
        """The type of elements that numpy has no type for."""
        if raw:
            size = self.dtype.itemsize
            return f"{size} raw bytes each ({self.dtype.str}), of which nobody says the type"
        word = _OTHER_KINDS.get(self.dtype.kind)
        return f"{word} ({self.dtype.str})" if word else f"of numpy type {self.dtype.str}"


def load_any_npy(path: Path) -> Any:
    """What numpy itself makes of a file a user gave: an array of any type, text too, or the archive
    an ``.npz`` is.

    The file is mapped first, so a header that claims more than the file has is refused before
    memory is asked for.

    Raises:
        OSError, ValueError, EOFError: it cannot be read, is no such file, or is cut.
    """
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.array(mapped) if isinstance(mapped, np.ndarray) else mapped


def read_npy_header(fd: int, size: int) -> NpyHeader:
    """The header of the open ``.npy`` file of *size* bytes.

    Raises:
        DamagedError: it is no such file, or the data is not as long as the header says.
    """
    start = read_at(fd, min(_MAX_HEADER, _FIRST_READ), 0)
    if _data_offset(start, size) > len(start):
        start = read_at(fd, _MAX_HEADER, 0)
    return parse_npy_header(start, size)


def parse_npy_header(start: bytes, size: int) -> NpyHeader:
    """As :func:`read_npy_header`, for ``.npy`` data of *size* bytes that begins with *start*.

    Raises:
        DamagedError: it is no such data, or not as long as the header says.
    """
    header = header_of(start, size)
    if not header.dtype.hasobject and header.data_offset + header.nbytes != size:
        raise DamagedError(
            f"the header gives {header.nbytes} bytes of data, "
            f"the file has {size - header.data_offset}",
            offset=header.data_offset,
        )
    return header


def header_of(start: bytes, size: int) -> NpyHeader:
    """The header alone, of ``.npy`` data that begins with *start* and may go on.

    Raises:
        DamagedError: it is no such data, or has less than *size* bytes for it.
    """
    data_offset = _data_offset(start, size)
    width = 2 if start[6] == 1 else 4
    return _parse(bytes(start[8 + width : data_offset]), data_offset)


def _data_offset(start: bytes, size: int) -> int:
    """Where the data begins, from the file's first bytes."""
    if start[:6] != _MAGIC:
        what = "the file is empty" if not start else "this is not a .npy file: its magic is missing"
        raise DamagedError(what, offset=0)
    if len(start) < 10 or start[6] not in (1, 2, 3):
        raise DamagedError("no known .npy version", offset=6)
    width = 2 if start[6] == 1 else 4
    data_offset = 8 + width + int.from_bytes(start[8 : 8 + width], "little")
    if data_offset > min(size, _MAX_HEADER):
        raise DamagedError(
            f"the .npy header should take {data_offset} bytes, the file has {size}", offset=8
        )
    return data_offset


@lru_cache(maxsize=4096)
def _parse(text: bytes, data_offset: int) -> NpyHeader:
    fields = _literal(text.decode("latin-1"))
    if not isinstance(fields, dict) or set(fields) != _KEYS:
        raise _bad("it should name descr, fortran_order and shape")
    shape, order = fields["shape"], fields["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise _bad("its shape is not a tuple of sizes")
    if not isinstance(order, bool):
        raise _bad("its fortran_order is neither True nor False")
    try:
        dtype = descr_to_dtype(fields["descr"])
    except _NO_TYPE:
        raise _bad("its descr is not an element type") from None
    return NpyHeader(dtype, shape, order, data_offset)


def _literal(text: str) -> object:
    for attempt in (text, _PYTHON2_LONG.sub("", text)):
        try:
            return ast.literal_eval(attempt.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise _bad("it is not a Python literal")


def _bad(what: str) -> DamagedError:
    return DamagedError(f"the .npy header cannot be understood: {what}", offset=10)


MOST_BYTES = 1 << 20
"""Larger files are mapped, not read."""

_MOST_HEADERS = 4096
_MOST_AXES = 32
_LEAST = 10
_VERSION_1 = b"\x93NUMPY\x01\x00"

_AT_ONCE = 1 << 16
"""Bytes that are read of a file of unknown size: more would cost pages of memory."""


class PlainNpy(NamedTuple):
    """What a plain header says; ``length`` is that of the whole file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    length: int
    kind: DType


_headers: dict[bytes, PlainNpy] = {}
"""Plain headers by their bytes."""


def small_npy(ref: DumpTensorRef) -> NDArray[np.generic] | None:
    """The values of a small ``.npy`` file in its own shape, read-only; None if it is
    anything but the plain file that *ref* describes."""
    length = ref.offset + ref.nbytes
    if ref.format is not DumpFormat.NPY or not 0 < ref.nbytes < MOST_BYTES or ref.parts:
        return None
    content = small_npy_bytes(ref.path, length, at_once=length)
    if content is None or ref.dtype is None:
        return None
    data, plain = content
    if (plain.dtype, plain.shape, plain.offset) != (ref.dtype.numpy, ref.shape, ref.offset):
        return None
    return np.ndarray(plain.shape, plain.dtype, data, plain.offset)


def small_npy_file(path: str | Path, size: int = 0) -> tuple[NDArray[np.generic], DType] | None:
    """The values and type of a small ``.npy`` file that was not opened before, read-only; None if
    it is not small and plain. A file known to have *size* bytes is read a little faster."""
    content = small_npy_bytes(path, size)
    if content is None:
        return None
    data, plain = content
    return np.ndarray(plain.shape, plain.dtype, data, plain.offset), plain.kind


def small_npy_bytes(
    path: str | Path, size: int = 0, *, at_once: int = _AT_ONCE
) -> tuple[bytes, PlainNpy] | None:
    """The same as the bytes of the whole file, and what its header says: of files with the
    same header that is one object. A larger *size* than *at_once* is taken for unknown."""
    # One byte more than there should be, so that a longer file is noticed.
    data = _start_of(path, size + 1 if 0 < size <= at_once else _AT_ONCE)
    if len(data) < _LEAST or data[:8] != _VERSION_1:
        return None
    start = data[: 10 + data[8] + (data[9] << 8)]
    header = _headers.get(start)
    if header is None:
        header = _plain_header(data)
        if header is None:
            return None
        if len(_headers) >= _MOST_HEADERS:
            _headers.clear()
        _headers[start] = header
    return (data, header) if len(data) == header.length else None


def _plain_header(data: bytes) -> PlainNpy | None:
    try:
        header = parse_npy_header(data, len(data))
        kind = header.element_type()
    except DamagedError:
        return None
    plain = header.dtype.isnative and not header.fortran_order and header.dtype.kind != "b"
    if not plain or not header.nbytes or len(header.shape) > _MOST_AXES:
        return None
    length = header.data_offset + header.nbytes
    return PlainNpy(header.dtype, header.shape, header.data_offset, length, kind)


def _start_of(path: str | Path, length: int) -> bytes:
    """The first bytes of a file, none if it cannot be read: the careful reader says why."""
    try:
        fd = os.open(path, OPEN_FLAGS)
    except OSError:
        return b""
    try:
        return read_at(fd, length, 0)
    except OSError:
        return b""
    finally:
        os.close(fd)
