"""Headers of ``.npy`` files, read fast and without ever unpickling.

A dump has thousands of files but few distinct headers, so parsed headers are cached by
their bytes. Format: versions 1 to 3 of ``numpy.lib.format``.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib.format import descr_to_dtype

from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.dumps.index import DamagedError

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

_DTYPES = {str(each): each for each in DType if each.numpy and each.numpy.name == each.value}
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
        known = _DTYPES.get(self.dtype.name)
        if known is not None:
            return known
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
        """What elements without an element type are."""
        if raw:
            size = self.dtype.itemsize
            return f"{size} raw bytes each ({self.dtype.str}), of which nobody says the type"
        word = _OTHER_KINDS.get(self.dtype.kind)
        return f"{word} ({self.dtype.str})" if word else f"of numpy type {self.dtype.str}"


def read_npy_header(fd: int, size: int) -> NpyHeader:
    """The header of the open ``.npy`` file of *size* bytes.

    Raises:
        DamagedError: it is no such file, or the data is not as long as the header says.
    """
    start = os.pread(fd, min(_MAX_HEADER, _FIRST_READ), 0)
    if _data_offset(start, size) > len(start):
        start = os.pread(fd, _MAX_HEADER, 0)
    return parse_npy_header(start, size)


def parse_npy_header(start: bytes, size: int) -> NpyHeader:
    """As :func:`read_npy_header`, for ``.npy`` data of *size* bytes that begins with *start*.

    Raises:
        DamagedError: it is no such data, or not as long as the header says.
    """
    header = _header(start, size)
    if not header.dtype.hasobject and header.data_offset + header.nbytes != size:
        raise DamagedError(
            f"the header gives {header.nbytes} bytes of data, "
            f"the file has {size - header.data_offset}",
            offset=header.data_offset,
        )
    return header


def header_of(start: bytes) -> NpyHeader:
    """The header alone, of ``.npy`` data of unknown length that begins with *start*.

    Raises:
        DamagedError: it is no such data.
    """
    return _header(start, len(start))


def _header(start: bytes, size: int) -> NpyHeader:
    data_offset = _data_offset(start, size)
    width = 2 if start[6] == 1 else 4
    return _parse(bytes(start[8 + width : data_offset]), data_offset)


def _data_offset(start: bytes, size: int) -> int:
    """Where the data begins, from the file's first bytes."""
    if start[:6] != _MAGIC:
        what = "the file is empty" if not start else "this is no .npy file: its magic is missing"
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
        raise _bad("its shape is no tuple of sizes")
    if not isinstance(order, bool):
        raise _bad("its fortran_order is neither True nor False")
    try:
        dtype = descr_to_dtype(fields["descr"])
    except _NO_TYPE:
        raise _bad("its descr is no element type") from None
    return NpyHeader(dtype, shape, order, data_offset)


def _literal(text: str) -> object:
    for attempt in (text, _PYTHON2_LONG.sub("", text)):
        try:
            return ast.literal_eval(attempt.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise _bad("it is no Python literal")


def _bad(what: str) -> DamagedError:
    return DamagedError(f"the .npy header cannot be understood: {what}", offset=10)
