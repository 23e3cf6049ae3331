"""The values of constants in TensorFlow's files."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ExecutionError
from importers.tensorflow.types import dtype_of

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
