"""What a program that runs a part has to know of element types that are not plain."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import Selection
from graphstore.model import DType
from importers.dumps.decode import decode
from importers.onnx_model.values import DTYPES

_HALF = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8}
"""Types of 16 bits with the largest relative error of one rounding."""
_NARROW = frozenset(
    (
        *(DType.BFLOAT16, DType.FLOAT8_E4M3FN, DType.FLOAT8_E4M3FNUZ),
        *(DType.FLOAT8_E5M2, DType.FLOAT8_E5M2FNUZ, DType.FLOAT8_E8M0),
    )
)
_ONNX = {dtype: number for number, dtype in DTYPES.items() if dtype in _NARROW}
"""Numbers of TensorProto.DataType; dumps hold these types as float32."""


@cache
def codes_of(dtype: DType | None) -> dict[str, object] | None:
    """``{onnx, bits, values}`` of a type numpy has not, None for others; ``values`` are those
    of all codes as text, None for bfloat16, half of a float32."""
    if dtype is None or dtype not in _ONNX:
        return None
    if dtype is DType.BFLOAT16:
        return {"onnx": _ONNX[dtype], "bits": 16, "values": None}
    values = decode(np.arange(256, dtype=np.uint8), dtype, 256)
    return {"onnx": _ONNX[dtype], "bits": 8, "values": [repr(float(value)) for value in values]}


def half_tolerance(parts: RunParts, part: Selection) -> float:
    """How far a *part* with tensors of 16 bits may be off when it is run again; 0 without.

    ONNX Runtime's CPU by itself hands float32 from op to op there and rounds only what is dumped,
    so no op of a golden run of another program was fed exactly what its dump says.
    """
    kinds = {tensor.dtype for op in part.chosen for tensor in parts.selector.ops[op].outputs}
    units = [unit for kind, unit in _HALF.items() if kind in kinds]
    return max(units, default=0.0) * math.sqrt(len(part.chosen) + 1)


def halves_inside(parts: RunParts, part: Selection) -> list[str]:
    """The tensors of 16 bits that ops of *part* make, which the next op is to read rounded."""
    tensors = [tensor for op in part.chosen for tensor in parts.selector.ops[op].outputs]
    return list(dict.fromkeys(t.name for t in tensors if t.name and t.dtype in _HALF))
