"""TensorFlow's types, shapes and attributes as plain values."""

from __future__ import annotations

from graphstore.model import AttrValue, DType, Shape
from importers.kept import kept_list, kept_text, tensor_text
from importers.proto.messages import tf_graph_pb2 as pb

DTYPES = {
    pb.DT_FLOAT: DType.FLOAT32,
    pb.DT_DOUBLE: DType.FLOAT64,
    pb.DT_INT32: DType.INT32,
    pb.DT_UINT8: DType.UINT8,
    pb.DT_INT16: DType.INT16,
    pb.DT_INT8: DType.INT8,
    pb.DT_STRING: DType.STRING,
    pb.DT_COMPLEX64: DType.COMPLEX64,
    pb.DT_INT64: DType.INT64,
    pb.DT_BOOL: DType.BOOL,
    pb.DT_QINT8: DType.QINT8,
    pb.DT_QUINT8: DType.QUINT8,
    pb.DT_QINT32: DType.QINT32,
    pb.DT_BFLOAT16: DType.BFLOAT16,
    pb.DT_QINT16: DType.QINT16,
    pb.DT_QUINT16: DType.QUINT16,
    pb.DT_UINT16: DType.UINT16,
    pb.DT_COMPLEX128: DType.COMPLEX128,
    pb.DT_HALF: DType.FLOAT16,
    pb.DT_RESOURCE: DType.RESOURCE,
    pb.DT_VARIANT: DType.VARIANT,
    pb.DT_UINT32: DType.UINT32,
    pb.DT_UINT64: DType.UINT64,
    pb.DT_FLOAT8_E5M2: DType.FLOAT8_E5M2,
    pb.DT_FLOAT8_E4M3FN: DType.FLOAT8_E4M3FN,
    pb.DT_FLOAT8_E4M3FNUZ: DType.FLOAT8_E4M3FNUZ,
    pb.DT_FLOAT8_E5M2FNUZ: DType.FLOAT8_E5M2FNUZ,
    pb.DT_INT4: DType.INT4,
    pb.DT_UINT4: DType.UINT4,
    pb.DT_INT2: DType.INT2,
    pb.DT_UINT2: DType.UINT2,
    pb.DT_FLOAT4_E2M1FN: DType.FLOAT4_E2M1,
}
_REF = 100
"""A reference type is its value's number plus this (types.proto)."""


def dtype_of(number: int) -> DType | None:
    """The type TensorFlow numbers so, references as what they refer to."""
    return DTYPES.get(pb.DataType.ValueType(number % _REF))


def shape_of(shape: pb.TensorShape) -> Shape | None:
    """The shape; None where its rank is unknown."""
    if shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in shape.dim)


def attr_value(value: pb.AttrValue) -> AttrValue | None:
    """The attribute as kept; types by our names, tensors and functions in words."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return _list(value.list)
    if kind == "type":
        return _type(value.type)
    if kind == "shape":
        return _shape(value.shape)
    if kind == "tensor":
        return _tensor(value.tensor)
    if kind == "func":
        return f"function {value.func.name}"
    if kind == "s":
        return _text(value.s)
    if kind == "placeholder":
        return kept_text(value.placeholder)
    if kind == "i":
        return value.i
    if kind == "f":
        return value.f
    return value.b if kind == "b" else None


def _list(values: pb.AttrValue.ListValue) -> AttrValue:
    items: list[AttrValue] = [
        *map(_text, values.s),
        *values.i,
        *values.f,
        *values.b,
        *map(_type, values.type),
        *map(_shape, values.shape),
        *map(_tensor, values.tensor),
        *(f"function {function.name}" for function in values.func),
    ]
    return kept_list(items)


def _text(value: bytes) -> str:
    return kept_text(value.decode("utf-8", "backslashreplace"))


def _type(number: int) -> str:
    dtype = dtype_of(number)
    return dtype.value if dtype else f"type {number}"


def _shape(shape: pb.TensorShape) -> AttrValue:
    known = shape_of(shape)
    return "unknown rank" if known is None else tuple(-1 if d is None else d for d in known)


def _tensor(tensor: pb.Tensor) -> str:
    return tensor_text(dtype_of(tensor.dtype), shape_of(tensor.tensor_shape))
