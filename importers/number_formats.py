"""Element types and layouts as files number and name them, as our names.

Both of Ascend's numberings of element types (``ge.proto.DataType`` of ge_ir.proto, and that of
ACL) and the one of layouts (``OutputFormat`` of the dump schema) are those of CANN's open sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import DType

UNDEFINED = 0
ACL_UNDEFINED = 28

# What is undefined is shown as the bytes it takes.
_BYTES = DType.INT8
_GE_ORDER = """
    float32 float16 int8 uint8 int16 uint16 int32 int64 uint32 uint64 bool float64 string
    dual_sub_int8 dual_sub_uint8 complex64 complex128 qint8 qint16 qint32 quint8 quint16 resource
    string_ref dual variant bfloat16 int4 uint1 int2 uint2 complex32 hifloat8 float8_e5m2
    float8_e4m3fn float8_e8m0 float6_e3m2 float6_e2m3 float4_e2m1 float4_e1m2 hifloat4
""".split()
_ACL_ORDER = [
    *"float32 float16 int8 int32 uint8 - int16 uint16 uint32 int64 uint64 float64 bool".split(),
    *_GE_ORDER[12:27],  # string to bfloat16
    "undefined",
    *_GE_ORDER[27:],
]
_GE = dict(enumerate(map(DType, _GE_ORDER), 1))

DTYPES: dict[int, DType] = {UNDEFINED: _BYTES, **_GE}
"""Element types as dump headers and GE's graphs number them."""

ACL_DTYPES: dict[int, DType] = {
    number: _BYTES if number == ACL_UNDEFINED else DType(name)
    for number, name in enumerate(_ACL_ORDER)
    if name != "-"
}
"""Element types as ACL numbers them: in the headers of Nano chips."""

_ALIASES = """
    float=float32 half=float16 double=float64 char=int8 short=int16 int=int32 long=int64 byte=uint8
    boolean=bool bf16=bfloat16 undefined=int8 cfloat=complex64 complexfloat=complex64
    cdouble=complex128 complexdouble=complex128 float8_e8m0fnu=float8_e8m0 float4_e2m1fn=float4_e2m1
"""
_NAMES = {dtype.value: dtype for dtype in DType} | {
    name: DType(dtype) for name, dtype in (pair.split("=") for pair in _ALIASES.split())
}

CHECKSUMS = ("md5", "crc32", "hash", "xor", "checksum")
"""The names under which dump tools write a checksum of a tensor's bytes."""


def named_dtype(name: str) -> DType | None:
    """The type behind a name in a file: ``DT_FLOAT``, ``Float32``, ``torch.bfloat16``."""
    return _NAMES.get(name.strip().rpartition(".")[2].lower().removeprefix("dt_"))


_GE_WORDS = {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16"}
_GE_NAMES = {
    name: dtype
    for number, dtype in _GE.items()
    for name in (str(number), f"DT_{_GE_WORDS.get(dtype.value, dtype.value.upper())}")
}


def dtype_named(name: str) -> DType | None:
    """The type GE's graphs call *name* (``DT_FLOAT``, or its number); None if unknown."""
    return _GE_NAMES.get(name)


_LAYOUTS = """
    NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0
    FRACTAL_DECONV_TRANSPOSE FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN
    FRACTAL_DECONV_SP_STRIDE8_TRANS HWCN NC1KHKWHWC0 BN_WEIGHT FILTER_HWCK HASHTABLE_LOOKUP_LOOKUPS
    HASHTABLE_LOOKUP_KEYS HASHTABLE_LOOKUP_VALUE HASHTABLE_LOOKUP_OUTPUT HASHTABLE_LOOKUP_HITS
    C1HWNCoC0 MD NDHWC FRACTAL_ZZ FRACTAL_NZ NCDHW DHWCN NDC1HWC0 FRACTAL_Z_3D CN NC DHWNC
    FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM FRACTAL_Z_G RESERVED ALL NULL ND_RNN_BIAS FRACTAL_ZN_RNN
    NYUV NYUV_A NCL FRACTAL_Z_WINO C1HWC0
""".split()
# A tensor "of no format" lies as its shape says.
_SHAPELESS = {"RESERVED", "ALL", "NULL", "MD"}


@dataclass(frozen=True, slots=True)
class FormatLayout:
    """A stored layout: its name, and the groups of grouped convolution weights."""

    name: str
    groups: int


def layout_of(number: int, sub_format: int = 0) -> FormatLayout:
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
    return FormatLayout("ND" if name in _SHAPELESS else name, groups)


def layout_number(name: str) -> int:
    """The format number of a layout name."""
    return _LAYOUTS.index(name)


def known_layout(name: str) -> str | None:
    """A layout named in a text file, ND where it names none; None for unknown names."""
    if name in _SHAPELESS or name == "DefaultFormat":
        return "ND"
    return name if name in _LAYOUTS else None


def layout_named(name: str) -> str | None:
    """The layout GE's graphs call *name*, None for GE's words for "none"."""
    return None if name in ("", "FORMAT_RESERVED", "RESERVED") else name
