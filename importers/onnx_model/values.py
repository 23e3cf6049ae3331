"""ONNX types, shapes and attributes as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphstore.model import AttrValue, Constant, DType, Shape, Tensor
from importers.kept import kept_list, kept_text, tensor_text

if TYPE_CHECKING:
    from onnx import AttributeProto, TensorProto, TypeProto

_ORDER = """
    float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64
    complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4
    float4_e2m1 float8_e8m0 uint2 int2 float6_e2m3 float6_e3m2
""".split()
DTYPES = dict(enumerate(map(DType, _ORDER), 1))
"""By number of ``onnx.TensorProto.DataType``; a newer number is an unknown type."""


_MAX_DIGITS = 19  # of a number of 63 bits


def tensor_of(name: str, kind: TypeProto | None) -> Tensor:
    """A tensor with what its type says; sequences and maps have no element type here."""
    if kind is None:
        return Tensor(name)
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return tensor_of(name, kind.optional_type.elem_type)
    if which == "tensor_type":
        tensor_type = kind.tensor_type
    elif which == "sparse_tensor_type":
        return Tensor(name, DTYPES.get(kind.sparse_tensor_type.elem_type))
    else:
        return Tensor(name)
    shape: Shape | None = None
    if tensor_type.HasField("shape"):
        dims = tensor_type.shape.dim
        shape = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims
        )
    return Tensor(name, DTYPES.get(tensor_type.elem_type), shape)


def constant(tensor: TensorProto, name: str) -> Constant:
    """Where the values of an initializer lie: ``location`` is empty for the model itself."""
    dtype = DTYPES.get(tensor.data_type)
    shape = tuple(dim if dim >= 0 else None for dim in tensor.dims)
    nbytes = _nbytes(dtype, shape)
    if tensor.data_location != tensor.EXTERNAL:
        return Constant(Tensor(name, dtype, shape), nbytes=nbytes)
    facts = {entry.key: entry.value for entry in tensor.external_data}
    length = facts.get("length", "")
    offset = facts.get("offset", "")
    return Constant(
        Tensor(name, dtype, shape),
        location=facts.get("location", ""),
        offset=_size(offset) or 0,
        nbytes=nbytes if _size(length) is None else _size(length),
    )


def _size(text: str) -> int | None:
    """A count of bytes; None for what is none, or larger than any file."""
    return int(text) if text.isdecimal() and len(text) < _MAX_DIGITS else None


def _nbytes(dtype: DType | None, shape: Shape) -> int | None:
    bits = dtype.bits if dtype else None
    dims = [dim for dim in shape if dim is not None]
    if bits is None or len(dims) < len(shape):
        return None
    nbytes = (math.prod(dims) * bits + 7) // 8
    return nbytes if nbytes < 1 << 63 else None


def attr_value(attr: AttributeProto) -> AttrValue | None:
    """The attribute as kept; None for graphs, which become sub-graphs, and empty ones."""
    if attr.ref_attr_name:
        return f"@{attr.ref_attr_name}"
    read = _READ.get(attr.type)
    return None if read is None else read(attr)


def _tensor(tensor: TensorProto) -> str:
    return tensor_text(DTYPES.get(tensor.data_type), tuple(tensor.dims))


def _text(value: bytes) -> str:
    return kept_text(value.decode("utf-8", "backslashreplace"))


def _type(kind: TypeProto) -> str:
    tensor = tensor_of("", kind)
    return tensor_text(tensor.dtype, tensor.shape)


# By number of onnx.AttributeProto.AttributeType.
_READ: dict[int, Callable[[AttributeProto], AttrValue]] = {
    1: lambda attr: attr.f,
    2: lambda attr: attr.i,
    3: lambda attr: _text(attr.s),
    4: lambda attr: _tensor(attr.t),
    6: lambda attr: kept_list(attr.floats),
    7: lambda attr: kept_list(attr.ints),
    8: lambda attr: kept_list([_text(value) for value in attr.strings]),
    9: lambda attr: kept_list([_tensor(tensor) for tensor in attr.tensors]),
    11: lambda attr: f"sparse {_tensor(attr.sparse_tensor.values)}",
    13: lambda attr: _type(attr.tp),
}
