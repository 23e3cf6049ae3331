"""The element types of tensors, under one name each.

Every importer and dump reader translates its own numbering into these names; nothing
past the importers sees a number. Names follow numpy where numpy has the type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import numpy as np


class DType(StrEnum):
    """Element type of a tensor; the value is the word shown to users and stored."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT8_E8M0 = "float8_e8m0"
    HIFLOAT8 = "hifloat8"
    FLOAT6_E3M2 = "float6_e3m2"
    FLOAT6_E2M3 = "float6_e2m3"
    FLOAT4_E2M1 = "float4_e2m1"
    FLOAT4_E1M2 = "float4_e1m2"
    HIFLOAT4 = "hifloat4"
    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT1 = "uint1"
    UINT2 = "uint2"
    UINT4 = "uint4"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    COMPLEX32 = "complex32"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    QINT8 = "qint8"
    QINT16 = "qint16"
    QINT32 = "qint32"
    QUINT8 = "quint8"
    QUINT16 = "quint16"
    STRING = "string"
    STRING_REF = "string_ref"
    RESOURCE = "resource"
    VARIANT = "variant"
    DUAL = "dual"
    DUAL_SUB_INT8 = "dual_sub_int8"
    DUAL_SUB_UINT8 = "dual_sub_uint8"

    @property
    def bits(self) -> int | None:
        """Storage bits of one element, or None where elements have no fixed size."""
        return _BITS.get(self)

    @property
    def numpy(self) -> np.dtype | None:
        """The numpy type of the *stored* bytes, or None where numpy has no such type.

        bfloat16 and the 8-bit floats have none: readers decode them to float32.
        """
        name = _NUMPY.get(self)
        return None if name is None else np.dtype(name)


UNIT_ROUNDOFF: Mapping[DType, float] = {
    DType.FLOAT16: 2.0**-11,
    DType.BFLOAT16: 2.0**-8,
    DType.FLOAT32: 2.0**-24,
}
"""Half the distance from 1 to the next number: the largest relative error of one rounding."""

# Every name says its bits but these two, and those of what has no fixed size.
_BITS: dict[DType, int] = {
    dtype: int(match[1])
    for dtype in DType
    if (match := re.search(r"(?:int|float|complex)(\d+)", dtype)) is not None
} | {DType.BOOL: 8, DType.RESOURCE: 64}

_IN_NUMPY = re.compile(r"u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|bool")
# Quantised and dual types are stored as the integers they are named after.
_NUMPY: dict[DType, str] = {
    dtype: name
    for dtype in DType
    if _IN_NUMPY.fullmatch(name := dtype.removeprefix("dual_sub_").removeprefix("q"))
} | {DType.RESOURCE: "int64"}
