"""Flatbuffers read with every offset checked.

The generated classes of the schema believe what a file says: an offset may lead out of it or,
below zero, be taken from its end, and a vector may claim four thousand million elements. They read
through one object, the table; the one here checks each access, and how much is read in all.
"""

from __future__ import annotations

import mmap
import re
from functools import cache
from typing import Any, TypeVar

import numpy as np
import tflite
from flatbuffers import number_types
from flatbuffers.table import Table

from graphstore.model import AttrValue, DType
from importers.kept import kept_list, kept_text

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


# The schema's numbers as names, and options of operators as attributes.


_TYPES = """
    FLOAT32=float32 FLOAT16=float16 INT32=int32 UINT8=uint8 INT64=int64 STRING=string BOOL=bool
    INT16=int16 COMPLEX64=complex64 INT8=int8 FLOAT64=float64 COMPLEX128=complex128 UINT64=uint64
    RESOURCE=resource VARIANT=variant UINT32=uint32 UINT16=uint16 INT4=int4 BFLOAT16=bfloat16
    INT2=int2 UINT4=uint4 FLOAT8E4M3FN=float8_e4m3fn FLOAT8E5M2=float8_e5m2
"""
_DTYPES = {name: DType(dtype) for name, dtype in (pair.split("=") for pair in _TYPES.split())}
_NAMED_BY = {
    "Padding": tflite.Padding,
    "FusedActivationFunction": tflite.ActivationFunctionType,
    "WeightsFormat": tflite.FullyConnectedOptionsWeightsFormat,
    "KernelType": tflite.LSTMKernelType,
    "Mode": tflite.MirrorPadMode,
}
_IN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLACEHOLDER = 127
"""An old code of this value says that the new field holds the code."""


@cache
def _names(kind: Any) -> dict[int, str]:
    return {number: name for name, number in vars(kind).items() if isinstance(number, int)}


def dtype_of(number: int) -> DType | None:
    """The element type with this number; None for a later schema's."""
    return _DTYPES.get(_names(tflite.TensorType).get(number, ""))


def operator_name(code: tflite.OperatorCode) -> str:
    """What the operator of this code is called: a custom one by its own name."""
    old = code.DeprecatedBuiltinCode()
    number = code.BuiltinCode() if old in (0, _PLACEHOLDER) else old
    if number == tflite.BuiltinOperator.CUSTOM:
        return text_of(code.CustomCode()) or "CUSTOM"
    return _names(tflite.BuiltinOperator).get(number, f"BUILTIN_{number}")


def text_of(value: bytes | None) -> str:
    """A text of the file; bytes that are no UTF-8 as escapes."""
    return (value or b"").decode("utf-8", "backslashreplace")


def options(bounds: Bounds, operator: tflite.Operator) -> dict[str, AttrValue]:
    """The options of *operator* by the schema's names, in snake case."""
    for kinds, number, union in (
        (tflite.BuiltinOptions, operator.BuiltinOptionsType(), operator.BuiltinOptions),
        (tflite.BuiltinOptions2, operator.BuiltinOptions2Type(), operator.BuiltinOptions2),
    ):
        name = _names(kinds).get(number, "NONE")
        table = None if name == "NONE" else union()
        kind = getattr(tflite, name, None)
        if table is not None and kind is not None:
            options_table = bounds.table(kind, table.Pos)
            return {
                _IN_WORDS.sub("_", field).lower(): _value(options_table, field, is_list)
                for field, is_list in _fields(kind)
            }
    return {}


@cache
def _fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """The fields of a table of plain values, and which are lists."""
    own = [name for name, member in vars(kind).items() if callable(member) and name != "Init"]
    own = [name for name in own if not name.startswith("_")]
    lists = {name.removesuffix("Length") for name in own if name.endswith("Length")}
    derived = {name + end for name in lists for end in ("Length", "AsNumpy", "IsNone")}
    return tuple((name, name in lists) for name in own if name not in derived)


def _value(table: Any, field: str, is_list: bool) -> AttrValue:
    if is_list:
        length = getattr(table, field + "Length")()
        if not hasattr(table, field + "AsNumpy"):
            return f"list of {length}"
        values: list[AttrValue] = getattr(table, field + "AsNumpy")().tolist() if length else []
        return kept_list(values)
    value = getattr(table, field)()
    if field in _NAMED_BY and value in (names := _names(_NAMED_BY[field])):
        return names[value]
    if isinstance(value, bytes):
        return kept_text(text_of(value))
    return value if isinstance(value, bool | int | float) else type(value).__name__
