"""Residual sums fused into the op before them: by the kernel's name, else by those of originals."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.execute.translate.ge.fused import kernel_types
from divergraph.verification.verify_dump import verify
from graphstore.model import Op, Verdict
from tests.made.device_ops import DeviceOps, spoiled
from tests.verification.definitions.windows import convolved

pytestmark = pytest.mark.slow

_ORIGINALS = ("res2a_branch1", "bn2a_branch1", "scale2a_branch1", "res2a", "res2a_relu")
_SAID = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1)}


def _kernel(*types):
    name = "_".join(types)
    return {"op_kernelname": f"te_fused_op_{name}_20b539a0ee022feb_c50cf465894adb0d_0__kernel0"}


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("conv2d_eltwise_leaky_relu", ("Conv2D", "Eltwise", "LeakyRelu")),
        ("read_select_conv2d_eltwise", ("ReadSelect", "Conv2D", "Eltwise")),
        ("conv2d_backprop_input_d_relu", ("Conv2DBackpropInputD", "Relu")),
        ("mat_mul_mul", ("MatMul", "Mul")),
        ("abs_mul_mul_add", ("Abs", "Mul", "Mul", "Add")),
        ("mat_mul_of_tomorrow", None),
    ],
)
def test_the_name_of_a_kernel_tells_its_ops(name, types):
    assert kernel_types(Op("op", "op", "Conv2D", attrs=_kernel(name))) == types


@pytest.fixture
def parts():
    draws = np.random.default_rng(3)
    shapes = (2, 6, 8, 8), (20, 6, 3, 3), (20,), (2, 20, 8, 8)
    x, w, b, residual = (draws.normal(size=shape).astype(np.float16) for shape in shapes)
    y = convolved(x.astype(float), w.astype(float), (1, 1), (1, 1, 1, 1))
    return x, w, b, residual, y + b.astype(float)[:, None, None]


def _half(value):
    return value.astype(np.float16)


_LAYOUTS = ("NCHW", "NCHW", "", "NCHW", "NCHW")


def _with_residual(made, name, inputs, value, **attrs):
    said = {"originals": _ORIGINALS, "fusion_scope": 8, **_SAID, **attrs}
    made.add(name, "Conv2D", inputs, [_half(value)], _LAYOUTS, blocked="NC1HWC0", **said)


@pytest.mark.parametrize("named", [True, False])
def test_a_sum_before_the_activation(tmp_path, parts, named):
    x, w, b, residual, y = parts
    made = DeviceOps(tmp_path)
    kernel = _kernel("conv2d", "eltwise", "leaky_relu") if named else {}
    _with_residual(made, "right", [x, w, b, residual], np.maximum(y + residual, 0), **kernel)
    _with_residual(made, "lost", [x, w, b, residual], np.maximum(y, 0), **kernel)
    found = verify(made.operands())
    # Names of originals do not say what else there may be; those of kernels do.
    assert [each.op for each in found.wrong] == (["lost"] if named else [])
    assert set(found.not_covered) == (set() if named else {"lost"})


def test_a_sum_behind_the_activation_and_two_of_them(tmp_path, parts):
    x, w, b, residual, y = parts
    made = DeviceOps(tmp_path)
    kernel = _kernel("conv2d", "relu", "eltwise")
    _with_residual(made, "behind", [x, w, b, residual], np.maximum(y, 0) + residual, **kernel)
    kernel = _kernel("conv2d", "add", "relu", "mul")
    both = np.maximum(y + residual, 0) * (residual + 1)
    inputs = [x, w, b, residual, _half(residual + 1)]
    said = {"originals": _ORIGINALS, "fusion_scope": 8, **_SAID, **kernel}
    made.add("two", "Conv2D", inputs, [_half(both)], (*_LAYOUTS, "NCHW"), blocked="NC1HWC0", **said)
    operands = made.operands()
    assert verify(operands).verdict is Verdict.CLEAN
    spoiled(operands, {"two": lambda value: np.multiply(value, 1.05, out=value, casting="unsafe")})
    assert [each.op for each in verify(operands).wrong] == ["two"]


def test_a_kernel_that_reads_every_other_row_of_what_it_adds(tmp_path, parts):
    x, w, b, _, y = parts
    large = _half(np.random.default_rng(4).normal(size=(2, 20, 16, 16)))
    made = DeviceOps(tmp_path)
    value = np.maximum(y + large[:, :, ::2, ::2], 0)
    layouts = ("NCHW", "NCHW", "NCHW", "", "NCHW")
    said = _kernel("read_select", "conv2d", "eltwise", "leaky_relu")
    said |= {"originals": ("read", *_ORIGINALS), "fusion_scope": 8, **_SAID}
    for name in ("right", "wrong"):
        outputs = [_half(value)]
        made.add(name, "ReadSelect", [large, x, w, b], outputs, layouts, blocked="NC1HWC0", **said)
    operands = made.operands()
    spoiled(operands, {"wrong": lambda value: np.copyto(value[:, 0], value[:, 1])})
    assert [each.op for each in verify(operands).wrong] == ["wrong"]
