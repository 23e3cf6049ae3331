"""Ops between floats and the integers in which quantised ops compute."""

from __future__ import annotations

import numpy as np

from tests.verification.definitions.windows import FOUR, convolved

_ROUNDED = {"Round": np.rint, "Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}
_OTHER = {"Ceiling": np.ceil, "Truncate": np.trunc}


def _packed(scales):
    return scales.astype(np.float32).view(np.uint32).astype(np.uint64)


def _int8(value):
    return np.clip(np.rint(value), -128, 127).astype(np.int8)


def quantised(add, draw):
    x = draw.held(draw(4, 18) * 20)
    for mode, rounded in {**_ROUNDED, **_OTHER}.items():
        made = np.clip(rounded(x * 0.5 + 3), -128, 127).astype(np.int8)
        add(f"quant_{mode}", "AscendQuant", [x], [made], scale=0.5, offset=3.0, round_mode=mode)
    add(
        "quant_square", "AscendQuant", [x], [_int8(x * 0.25)], scale=0.5, offset=0.0, sqrt_mode=True
    )
    whole = draw.whole(4, 18, least=-128, most=127).astype(np.int8)
    back = (whole + 3.0) * 0.5
    add("anti", "AscendAntiQuant", [whole], [back], scale=0.5, offset=3.0)


def dequantised(add, draw):
    whole = np.round(draw(2, 4, 3, 3) * 1e5).astype(np.int32)
    scales = np.array([1e-4, 2e-4, 3e-4, 1e-3], np.float32)
    made = whole * scales[:, None, None].astype(float)
    three = ("NCHW", "", "NCHW")
    positive = [np.maximum(made, 0)]
    add("dequant", "AscendDequant", [whole, _packed(scales)], positive, three, relu_flag=True)
    twice = [made * scales[:, None, None]]
    add("dequant_square", "AscendDequant", [whole, _packed(scales)], twice, three, sqrt_mode=True)
    add("requant", "AscendRequant", [whole, _packed(scales)], [_int8(made)], three)


def products(add, draw):
    x = draw.whole(2, 6, 5, 5).astype(np.int8)
    w, b = draw.whole(20, 6, 3, 3).astype(np.int8), draw.whole(20)
    y = convolved(x.astype(float), w.astype(float), (1, 1), (1, 1, 1, 1)) + b[:, None, None]
    said = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1)}
    add("conv_int8", "Conv2D", [x, w, b], [y.astype(np.int32)], FOUR, **said)
    deep = draw.whole(2, 600, 3, 3, least=-128, most=127).astype(np.int8)
    one = draw.whole(20, 600, 1, 1, least=-128, most=127).astype(np.int8)
    y = convolved(deep.astype(float), one.astype(float), (1, 1), (0, 0, 0, 0)).astype(np.int32)
    said = {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0)}
    add("conv_deep", "Conv2D", [deep, one], [y], ("NCHW", "NCHW", "NCHW"), **said)
    p, q = x[0, 0], w[:5, 0, 0]
    made = p.astype(np.int32) @ q.astype(np.int32) + b[:3]
    full = x[:, :, :3, :3].reshape(2, -1).astype(np.int32) @ w.reshape(20, -1).T.astype(np.int32)
    said = {"num_output": 20, "transpose": False, "axis": 1}
    made_full = (full + b).reshape(2, 20, 1, 1)
    add("full_int8", "FullyConnection", [x[:, :, :3, :3], w, b], [made_full], FOUR, **said)
    add("matmul_int8", "MatMulV2", [p, q, b[:3]], [made], transpose_x1=False, transpose_x2=False)


PARTS = (quantised, dequantised, products)
