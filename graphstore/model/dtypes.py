"""The element types of tensors, under one name each.

Every importer and dump reader translates its own numbering into these names; nothing
past the importers sees a number. Names follow numpy where numpy has the type.
"""

from __future__ import annotations

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


_BITS: dict[DType, int] = {
    DType.FLOAT16: 16,
    DType.FLOAT32: 32,
    DType.FLOAT64: 64,
    DType.BFLOAT16: 16,
    DType.FLOAT8_E5M2: 8,
    DType.FLOAT8_E4M3FN: 8,
    DType.FLOAT8_E4M3FNUZ: 8,
    DType.FLOAT8_E5M2FNUZ: 8,
    DType.FLOAT8_E8M0: 8,
    DType.HIFLOAT8: 8,
    DType.FLOAT6_E3M2: 6,
    DType.FLOAT6_E2M3: 6,
    DType.FLOAT4_E2M1: 4,
    DType.FLOAT4_E1M2: 4,
    DType.HIFLOAT4: 4,
    DType.INT2: 2,
    DType.INT4: 4,
    DType.INT8: 8,
    DType.INT16: 16,
    DType.INT32: 32,
    DType.INT64: 64,
    DType.UINT1: 1,
    DType.UINT2: 2,
    DType.UINT4: 4,
    DType.UINT8: 8,
    DType.UINT16: 16,
    DType.UINT32: 32,
    DType.UINT64: 64,
    DType.BOOL: 8,
    DType.COMPLEX32: 32,
    DType.COMPLEX64: 64,
    DType.COMPLEX128: 128,
    DType.QINT8: 8,
    DType.QINT16: 16,
    DType.QINT32: 32,
    DType.QUINT8: 8,
    DType.QUINT16: 16,
    DType.RESOURCE: 64,
    DType.DUAL_SUB_INT8: 8,
    DType.DUAL_SUB_UINT8: 8,
}

_NUMPY: dict[DType, str] = {
    DType.FLOAT16: "float16",
    DType.FLOAT32: "float32",
    DType.FLOAT64: "float64",
    DType.INT8: "int8",
    DType.INT16: "int16",
    DType.INT32: "int32",
    DType.INT64: "int64",
    DType.UINT8: "uint8",
    DType.UINT16: "uint16",
    DType.UINT32: "uint32",
    DType.UINT64: "uint64",
    DType.BOOL: "bool",
    DType.COMPLEX64: "complex64",
    DType.COMPLEX128: "complex128",
    DType.QINT8: "int8",
    DType.QINT16: "int16",
    DType.QINT32: "int32",
    DType.QUINT8: "uint8",
    DType.QUINT16: "uint16",
    DType.RESOURCE: "int64",
    DType.DUAL_SUB_INT8: "int8",
    DType.DUAL_SUB_UINT8: "uint8",
}
