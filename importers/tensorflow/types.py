"""TensorFlow's types, shapes and attributes as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ExecutionError
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


# The values of constants in TensorFlow's files.


# Which field lists the values of a type where they are not packed into bytes (tensor.proto).
_LISTED = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int_val"),
    **dict.fromkeys(("float16", "bfloat16"), "half_val"),
}
_MOST = 1 << 31
"""Bytes up to which a constant is taken to be what its shape says."""


def tensor_value(tensor: Any) -> NDArray[Any]:
    """The value of a TensorProto (with all its fields: ``whole_messages``); bfloat16 as float32.

    Raises:
        ExecutionError: texts and other elements numpy has no type for, or a damaged tensor.
    """
    dtype = dtype_of(tensor.dtype)
    name = dtype.value if dtype else f"type {tensor.dtype}"
    if name not in _LISTED:
        raise ExecutionError(f"a constant of {name} cannot be run")
    stored = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count < 0 or count * stored.itemsize > _MOST:
        raise ExecutionError(f"a constant of {count} elements: the file is damaged")
    values = _flat(tensor, stored, _LISTED[name], count)
    value = values.reshape(shape)
    return value.astype(np.float32) if name == "bfloat16" else value


def _flat(tensor: Any, stored: np.dtype[Any], field: str, count: int) -> NDArray[Any]:
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * stored.itemsize:
            raise ExecutionError(
                f"a constant of {count} elements holds {len(tensor.tensor_content)} bytes"
            )
        return np.frombuffer(tensor.tensor_content, stored)
    listed = getattr(tensor, field)
    if field == "half_val":
        values = np.array(listed, np.uint16).view(stored)
    else:
        values = np.array(listed, stored)
    if values.size > count:
        raise ExecutionError(f"a constant of {count} elements holds {values.size}")
    # The last of the listed values stands for all behind it; without any they are zeros.
    last = values[-1:] if values.size else np.zeros(1, stored)
    return np.concatenate([values, np.repeat(last, count - values.size)])
