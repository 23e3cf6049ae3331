"""TensorFlow's types, shapes and attributes as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphstore.model import AttrValue, DType, Shape
from importers.kept import kept_list, kept_text, tensor_text
from importers.number_formats import named_dtype
from importers.proto.messages import tf_graph_pb2 as pb

_REF = 100
"""A reference type is its value's number plus this (types.proto)."""

DTYPES: dict[int, DType] = {
    number: dtype
    for name, number in pb.DataType.items()
    if number < _REF and (dtype := named_dtype(name)) is not None
}


def dtype_of(number: int) -> DType | None:
    """The type TensorFlow numbers so, references as what they refer to."""
    return DTYPES.get(number % _REF)


def shape_of(shape: pb.TensorShape) -> Shape | None:
    """The shape; None where its rank is unknown."""
    if shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in shape.dim)


def attr_value(value: pb.AttrValue) -> AttrValue | None:
    """The attribute as kept; types by our names, tensors and functions in words."""
    kind = value.WhichOneof("value")
    return None if kind is None else _READ[kind](getattr(value, kind))


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
    sizes = shape_of(shape)
    return "unknown rank" if sizes is None else tuple(-1 if d is None else d for d in sizes)


def _tensor(tensor: pb.Tensor) -> str:
    return tensor_text(dtype_of(tensor.dtype), shape_of(tensor.tensor_shape))


_READ: dict[str, Callable[[Any], AttrValue]] = {
    "list": _list,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "s": _text,
    "placeholder": kept_text,
    "i": int,
    "f": float,
    "b": bool,
    "func": lambda function: f"function {function.name}",
}
