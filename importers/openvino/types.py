"""Element types, shapes and attributes as OpenVINO writes them, as plain values."""

from __future__ import annotations

import math
import re

from graphstore.model import AttrValue, DType, Shape
from importers.kept import kept_list, kept_text
from importers.openvino.xml_reader import MAX_RANK, whole_number

_TYPES = """
    f16=float16 f32=float32 f64=float64 bf16=bfloat16 fp16=float16 fp32=float32 fp64=float64
    i4=int4 i8=int8 i16=int16 i32=int32 i64=int64 u1=uint1 u2=uint2 u4=uint4 u8=uint8 u16=uint16
    u32=uint32 u64=uint64 bin=uint1 bool=bool boolean=bool string=string
    f8e4m3=float8_e4m3fn f8e5m2=float8_e5m2 f8e8m0=float8_e8m0 f4e2m1=float4_e2m1
"""
_DTYPES = {name: DType(dtype) for name, dtype in (pair.split("=") for pair in _TYPES.split())}
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|-?inf|nan")
_MAX_LIST = 1 << 16  # characters; a longer list is a table


def dtype_of(name: str) -> DType | None:
    """The type called *name* (``f32``, ``FP32``, ``boolean``); None if unknown or not settled."""
    return _DTYPES.get(name.strip().lower())


def shape_of(text: str) -> Shape | None:
    """The shape written *text* (``?,3,1..5``); None for one of any rank or what is no shape."""
    if text.strip() == "...":
        return None
    dims = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(dims) > MAX_RANK:
        return None
    numbers = [whole_number(dim) for dim in dims]
    return tuple(dim if dim is not None and dim >= 0 else None for dim in numbers)


def nbytes_of(dtype: DType | None, shape: Shape | None) -> int | None:
    """The bytes a constant takes; None if that is not known."""
    bits = None if dtype is None else dtype.bits
    if bits is None or shape is None or None in shape:
        return None
    nbytes = (math.prod(dim for dim in shape if dim is not None) * bits + 7) // 8
    return nbytes if nbytes < 1 << 63 else None


def value_of(text: str) -> AttrValue:
    """An attribute: a truth, a number, a list of them with commas, or the text itself."""
    if "," in text and len(text) <= _MAX_LIST:
        parts = [_number(part.strip()) for part in text.split(",")]
        if all(part is not None for part in parts):
            return kept_list([part for part in parts if part is not None])
    if text in ("true", "false"):
        return text == "true"
    number = _number(text)
    return kept_text(text) if number is None else number


def _number(text: str) -> int | float | None:
    integer = whole_number(text)
    if integer is not None:
        return integer
    return float(text) if len(text) < 40 and _FLOAT.fullmatch(text) else None


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas, in their order, each once."""
    return tuple(dict.fromkeys(name for name in (part.strip() for part in text.split(",")) if name))
