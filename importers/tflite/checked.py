"""Flatbuffers read with every offset checked.

The generated classes of the schema believe what a file says: an offset may lead out of it or,
below zero, be taken from its end, and a vector may claim four thousand million elements. They read
through one object, the table; the one here checks each access, and how much is read in all.
"""

from __future__ import annotations

import mmap
from typing import Any, TypeVar

import numpy as np
from flatbuffers import number_types
from flatbuffers.table import Table

_OFFSET = number_types.UOffsetTFlags
_AGAIN = 16
"""How often the bytes of a file may be read: vectors may be shared, but not for ever."""
_SPARE = 1 << 20

AnyTable = TypeVar("AnyTable")


class DamagedTableError(ValueError):
    """An access that leads out of the file; ``offset`` is where, in bytes from its start."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


class Bounds:
    """The bytes of a file, and how many more of them may be read."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self._left = _AGAIN * self.size + _SPARE

    def check(self, offset: int, length: int) -> None:
        """Raise DamagedTableError unless *length* bytes at *offset* lie in the file."""
        if offset < 0 or offset + length > self.size:
            what = f"an offset leads to byte {offset}, and the file has {self.size}"
            raise DamagedTableError(what, max(0, min(offset, self.size)))
        self._left -= length
        if self._left < 0:
            raise DamagedTableError("parts of the file lie over each other without end", offset)

    def table(self, kind: type[AnyTable], offset: int) -> AnyTable:
        """The table of *kind*, a class of the schema, at *offset*."""
        self.check(offset, 4)
        checked: Any = kind()
        checked._tab = _CheckedTable(self, offset)
        return checked  # type: ignore[no-any-return]

    def root(self, kind: type[AnyTable]) -> AnyTable:
        """The table of *kind* that the file begins with."""
        self.check(0, 8)
        return self.table(kind, int.from_bytes(self.data[:4], "little"))

    def inner(self, inner_table: AnyTable) -> AnyTable:
        """*inner_table*, a table as an accessor of another gives it, checked as well."""
        table: Any = inner_table
        return self.table(type(inner_table), table._tab.Pos)


class _CheckedTable(Table):  # type: ignore[misc]
    __slots__ = ("_bounds",)

    def __init__(self, bounds: Bounds, offset: int) -> None:
        super().__init__(bounds.data, offset)
        self._bounds = bounds

    def Get(self, flags: Any, off: int) -> Any:  # noqa: N802 - the library's name
        self._bounds.check(off, flags.bytewidth)
        return super().Get(flags, off)

    def Indirect(self, off: int) -> int:  # noqa: N802
        return off + int(self.Get(_OFFSET, off))

    def String(self, off: int) -> bytes:  # noqa: N802
        at = self.Indirect(off)
        length = int(self.Get(_OFFSET, at))
        self._bounds.check(at + 4, length)
        return bytes(self.Bytes[at + 4 : at + 4 + length])

    def VectorLen(self, off: int) -> int:  # noqa: N802
        at = self.Indirect(self.Pos + off)
        length = int(self.Get(_OFFSET, at))
        self._bounds.check(at + 4, length)
        return length

    def GetVectorAsNumpy(self, flags: Any, off: int) -> Any:  # noqa: N802
        kind = np.dtype(number_types.to_numpy_type(flags))
        start, length = self.Vector(off), self.VectorLen(off)
        self._bounds.check(start, length * kind.itemsize)
        # copied, as a view would keep a mapped file from being closed
        return np.frombuffer(bytes(self.Bytes[start : start + length * kind.itemsize]), kind)
