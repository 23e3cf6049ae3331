"""Convolutions as products of patches are those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_conv import run_conv

from divergraph.rootcause.devices.patches import has_patches, of_patches
from graphstore.model import InputRef, Op

RNG = np.random.default_rng(4)
Array = np.ndarray[Any, Any]
FORMS = {
    "padded": ((2, 8, 9, 14), (16, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strides": ((1, 8, 19, 14), (16, 8, 3, 3), {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "dilated": ((1, 4, 19, 14), (6, 4, 3, 2), {"dilations": [2, 3]}),
    "grouped": ((2, 8, 9, 14), (6, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "one axis": ((2, 4, 19), (6, 4, 3), {"pads": [2, 0]}),
    "same upper": ((2, 4, 19), (6, 4, 2), {"auto_pad": "SAME_UPPER"}),
    "same lower": ((2, 4, 19), (6, 4, 2), {"auto_pad": "SAME_LOWER"}),
}


def conv(attrs: dict[str, Any]) -> Op:
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in attrs.items()}
    return Op("conv", "conv", "Conv", tuple(map(InputRef, "xwb")), attrs=given)


@pytest.mark.parametrize("memory", [1, 1 << 30], ids=["one row at once", "all at once"])
@pytest.mark.parametrize("form", FORMS)
def test_patches_give_the_same_where_nothing_is_rounded(form: str, memory: int) -> None:
    x, w, attrs = FORMS[form]
    sizes = {"x": x, "w": w, "b": w[:1]}
    values = {name: RNG.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    right, op = run_conv(values, attrs), conv(attrs)
    assert has_patches(op, values["w"])
    seen: list[Array] = []

    def kept(rows: Array) -> Array:
        seen.append(rows)
        return rows

    found = of_patches(op, values, right, kept, memory)
    assert found is not None
    assert np.linalg.norm(found - right) < 1e-6 * np.linalg.norm(right)
    assert len(seen) == (right.shape[2] if memory == 1 else 1)


def test_each_patch_is_rounded_by_itself() -> None:
    values = {"x": np.ones((1, 1, 4), np.float32), "w": np.ones((1, 1, 2), np.float32)}
    values["x"][0, 0] = [1, 2, 3, 4]
    right = run_conv(values, {})

    def far(rows: Array) -> Array:
        return rows / rows.max(-1, keepdims=True)

    def near(rows: Array) -> Array:
        return rows + 0.01 * rows.max(-1, keepdims=True)

    assert of_patches(conv({}), values, right, far, 1 << 30) is None  # that is no rounding
    found = of_patches(conv({}), values, right, near, 1 << 30)
    assert found == pytest.approx(right + 0.02 * np.array([2, 3, 4]), abs=1e-5)
