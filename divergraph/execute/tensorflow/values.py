"""Values between TensorFlow and the rest: element types numpy knows, float32 for narrow ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from divergraph.execute.contract import Array

_QUANTISED = {"qint8": "i1", "quint8": "u1", "qint16": "i2", "quint16": "u2", "qint32": "i4"}


def plain(value: Any) -> Array:
    """A fetched value as an array of numpy's own types, that shares no memory with a variable.

    bfloat16 and 8-bit floats become float32, 4-bit numbers int8, quantised ones the
    integers they are stored as.
    """
    array = np.array(value)
    if array.dtype.names:
        return array.view(array.dtype[0]).reshape(array.shape)
    if array.dtype.kind in "biufc":
        return array
    return array.astype(np.int8 if "int" in array.dtype.name else np.float32)


def as_typed(value: Array, kind: Any) -> Any:
    """*value* in TensorFlow's type *kind*; a device may hold another one of its sort."""
    name = kind.base_dtype.name
    if name in _QUANTISED:
        stored = np.dtype(_QUANTISED[name])
        return np.ascontiguousarray(value, stored).view(kind.base_dtype.as_numpy_dtype)
    if name == "string":
        return value
    return np.asarray(value).astype(kind.base_dtype.as_numpy_dtype, copy=False)
