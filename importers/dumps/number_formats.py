"""The numbers a dump header uses for element types and layouts, as our names.

Element types are numbered as in ``ge.proto.DataType``, layouts as in the dump schema's
``OutputFormat``; both lists are those of CANN's open sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import DType

DTYPES: dict[int, DType] = {
    # 0 is "undefined": its bytes are shown as they are.
    0: DType.INT8,
    1: DType.FLOAT32,
    2: DType.FLOAT16,
    3: DType.INT8,
    4: DType.UINT8,
    5: DType.INT16,
    6: DType.UINT16,
    7: DType.INT32,
    8: DType.INT64,
    9: DType.UINT32,
    10: DType.UINT64,
    11: DType.BOOL,
    12: DType.FLOAT64,
    13: DType.STRING,
    14: DType.DUAL_SUB_INT8,
    15: DType.DUAL_SUB_UINT8,
    16: DType.COMPLEX64,
    17: DType.COMPLEX128,
    18: DType.QINT8,
    19: DType.QINT16,
    20: DType.QINT32,
    21: DType.QUINT8,
    22: DType.QUINT16,
    23: DType.RESOURCE,
    24: DType.STRING_REF,
    25: DType.DUAL,
    26: DType.VARIANT,
    27: DType.BFLOAT16,
    28: DType.INT4,
    29: DType.UINT1,
    30: DType.INT2,
    31: DType.UINT2,
    32: DType.COMPLEX32,
    33: DType.HIFLOAT8,
    34: DType.FLOAT8_E5M2,
    35: DType.FLOAT8_E4M3FN,
    36: DType.FLOAT8_E8M0,
    37: DType.FLOAT6_E3M2,
    38: DType.FLOAT6_E2M3,
    39: DType.FLOAT4_E2M1,
    40: DType.FLOAT4_E1M2,
    41: DType.HIFLOAT4,
}
UNDEFINED = 0

ACL_DTYPES: dict[int, DType] = {
    0: DType.FLOAT32,
    1: DType.FLOAT16,
    2: DType.INT8,
    3: DType.INT32,
    4: DType.UINT8,
    6: DType.INT16,
    7: DType.UINT16,
    8: DType.UINT32,
    9: DType.INT64,
    10: DType.UINT64,
    11: DType.FLOAT64,
    12: DType.BOOL,
    13: DType.STRING,
    14: DType.DUAL_SUB_INT8,
    15: DType.DUAL_SUB_UINT8,
    16: DType.COMPLEX64,
    17: DType.COMPLEX128,
    18: DType.QINT8,
    19: DType.QINT16,
    20: DType.QINT32,
    21: DType.QUINT8,
    22: DType.QUINT16,
    23: DType.RESOURCE,
    24: DType.STRING_REF,
    25: DType.DUAL,
    26: DType.VARIANT,
    27: DType.BFLOAT16,
    # 28 is "undefined": its bytes are shown as they are.
    28: DType.INT8,
    29: DType.INT4,
    30: DType.UINT1,
    31: DType.INT2,
    32: DType.UINT2,
    33: DType.COMPLEX32,
    34: DType.HIFLOAT8,
    35: DType.FLOAT8_E5M2,
    36: DType.FLOAT8_E4M3FN,
    37: DType.FLOAT8_E8M0,
    38: DType.FLOAT6_E3M2,
    39: DType.FLOAT6_E2M3,
    40: DType.FLOAT4_E2M1,
    41: DType.FLOAT4_E1M2,
    42: DType.HIFLOAT4,
}
"""Element types as ACL numbers them: in the headers of Nano chips."""
ACL_UNDEFINED = 28

TYPE_NAMES: dict[str, DType] = {
    "float": DType.FLOAT32,
    "half": DType.FLOAT16,
    "double": DType.FLOAT64,
    "bf16": DType.BFLOAT16,
    "boolean": DType.BOOL,
    "short": DType.INT16,
    "int": DType.INT32,
    "long": DType.INT64,
    "cfloat": DType.COMPLEX64,
    "cdouble": DType.COMPLEX128,
    "undefined": DType.INT8,
    **{dtype.value: dtype for dtype in DType},
}


def named_dtype(name: str) -> DType | None:
    """The type behind a name in a text file: ``DT_FLOAT``, ``Float32``, ``torch.bfloat16``."""
    plain = name.strip().rpartition(".")[2].lower().removeprefix("dt_")
    return TYPE_NAMES.get(plain)


_LAYOUTS: tuple[str, ...] = (
    "NCHW",
    "NHWC",
    "ND",
    "NC1HWC0",
    "FRACTAL_Z",
    "NC1C0HWPAD",
    "NHWC1C0",
    "FSR_NCHW",
    "FRACTAL_DECONV",
    "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE",
    "FRACTAL_DECONV_SP_STRIDE_TRANS",
    "NC1HWC0_C04",
    "FRACTAL_Z_C04",
    "CHWN",
    "FRACTAL_DECONV_SP_STRIDE8_TRANS",
    "HWCN",
    "NC1KHKWHWC0",
    "BN_WEIGHT",
    "FILTER_HWCK",
    "HASHTABLE_LOOKUP_LOOKUPS",
    "HASHTABLE_LOOKUP_KEYS",
    "HASHTABLE_LOOKUP_VALUE",
    "HASHTABLE_LOOKUP_OUTPUT",
    "HASHTABLE_LOOKUP_HITS",
    "C1HWNCoC0",
    "MD",
    "NDHWC",
    "FRACTAL_ZZ",
    "FRACTAL_NZ",
    "NCDHW",
    "DHWCN",
    "NDC1HWC0",
    "FRACTAL_Z_3D",
    "CN",
    "NC",
    "DHWNC",
    "FRACTAL_Z_3D_TRANSPOSE",
    "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G",
    "RESERVED",
    "ALL",
    "NULL",
    "ND_RNN_BIAS",
    "FRACTAL_ZN_RNN",
    "NYUV",
    "NYUV_A",
    "NCL",
    "FRACTAL_Z_WINO",
    "C1HWC0",
)
# A tensor "of no format" lies as its shape says.
_SHAPELESS = {"RESERVED", "ALL", "NULL", "MD"}


@dataclass(frozen=True, slots=True)
class Layout:
    """A stored layout: its name, and the groups of grouped convolution weights."""

    name: str
    groups: int


def layout_of(number: int, sub_format: int = 0) -> Layout:
    """The layout behind a format *number*, which may be packed with its groups.

    The low 8 bits are the format, bits 8 to 23 the groups unless the header's own
    *sub_format* says. An unknown number gives a name that no layout code accepts.
    """
    primary = number & 0xFF
    groups = sub_format if sub_format > 0 else (number >> 8) & 0xFFFF
    if primary >= len(_LAYOUTS):
        name = "ND" if primary == 0xFF else f"FORMAT_{primary}"
    else:
        name = _LAYOUTS[primary]
    return Layout("ND" if name in _SHAPELESS else name, groups)


def layout_number(name: str) -> int:
    """The format number of a layout name."""
    return _LAYOUTS.index(name)


def known_layout(name: str) -> str | None:
    """A layout named in a text file, ND where it names none; None for unknown names."""
    if name in _SHAPELESS or name == "DefaultFormat":
        return "ND"
    return name if name in _LAYOUTS else None
