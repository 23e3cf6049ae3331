"""GE's names for element types and layouts, in ours.

Source of the numbers: ``ge.proto.DataType`` of ge_ir.proto (not the C++ ``ge::DataType``,
which numbers them otherwise).
"""

from __future__ import annotations

from graphstore.model import DType

_BY_NUMBER: tuple[tuple[str, DType | None], ...] = (
    ("DT_UNDEFINED", None),
    ("DT_FLOAT", DType.FLOAT32),
    ("DT_FLOAT16", DType.FLOAT16),
    ("DT_INT8", DType.INT8),
    ("DT_UINT8", DType.UINT8),
    ("DT_INT16", DType.INT16),
    ("DT_UINT16", DType.UINT16),
    ("DT_INT32", DType.INT32),
    ("DT_INT64", DType.INT64),
    ("DT_UINT32", DType.UINT32),
    ("DT_UINT64", DType.UINT64),
    ("DT_BOOL", DType.BOOL),
    ("DT_DOUBLE", DType.FLOAT64),
    ("DT_STRING", DType.STRING),
    ("DT_DUAL_SUB_INT8", DType.DUAL_SUB_INT8),
    ("DT_DUAL_SUB_UINT8", DType.DUAL_SUB_UINT8),
    ("DT_COMPLEX64", DType.COMPLEX64),
    ("DT_COMPLEX128", DType.COMPLEX128),
    ("DT_QINT8", DType.QINT8),
    ("DT_QINT16", DType.QINT16),
    ("DT_QINT32", DType.QINT32),
    ("DT_QUINT8", DType.QUINT8),
    ("DT_QUINT16", DType.QUINT16),
    ("DT_RESOURCE", DType.RESOURCE),
    ("DT_STRING_REF", DType.STRING_REF),
    ("DT_DUAL", DType.DUAL),
    ("DT_VARIANT", DType.VARIANT),
    ("DT_BF16", DType.BFLOAT16),
    ("DT_INT4", DType.INT4),
    ("DT_UINT1", DType.UINT1),
    ("DT_INT2", DType.INT2),
    ("DT_UINT2", DType.UINT2),
    ("DT_COMPLEX32", DType.COMPLEX32),
    ("DT_HIFLOAT8", DType.HIFLOAT8),
    ("DT_FLOAT8_E5M2", DType.FLOAT8_E5M2),
    ("DT_FLOAT8_E4M3FN", DType.FLOAT8_E4M3FN),
    ("DT_FLOAT8_E8M0", DType.FLOAT8_E8M0),
    ("DT_FLOAT6_E3M2", DType.FLOAT6_E3M2),
    ("DT_FLOAT6_E2M3", DType.FLOAT6_E2M3),
    ("DT_FLOAT4_E2M1", DType.FLOAT4_E2M1),
    ("DT_FLOAT4_E1M2", DType.FLOAT4_E1M2),
    ("DT_HIFLOAT4", DType.HIFLOAT4),
)
_BY_NAME = dict(_BY_NUMBER) | {str(number): dtype for number, (_, dtype) in enumerate(_BY_NUMBER)}
_NO_LAYOUT = frozenset({"", "FORMAT_RESERVED", "RESERVED"})


def dtype_named(name: str) -> DType | None:
    """The type GE calls *name* (``DT_FLOAT``, or its proto number); None if unknown."""
    return _BY_NAME.get(name)


def layout_named(name: str) -> str | None:
    """The layout, None for GE's words for "none"."""
    return None if name in _NO_LAYOUT else name
