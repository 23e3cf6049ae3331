"""Kinds of fault that users of real runtimes reported, each with the report it is made after.

No rule of the root-cause analysis was written for them. As in :mod:`faults`, most change the
values of one tensor, some the op itself; None where a fault does not apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import onnx
from faults import Array, Context, NodeEdit, OpFault, ValueFault


class ReportedFault(StrEnum):
    """The kinds, and who reported what."""

    PAIR_SUMS = "sums of two products saturate at 16 bits"
    """onnxruntime #6004, #16105: 8-bit products on AVX2 add pairs in int16."""
    HALF_SUMS = "products summed in half precision"
    """openvino #19782, #34704: accumulators of convolutions and products were float16."""
    HALF_MEAN = "mean summed in half precision"
    """LiteRT #9249, openvino #35976: sums of reductions pass 65504."""
    RESIZE = "resize with other coordinates"
    """tvm #19570, TensorRT #273: the coordinate mode is another one than the model's."""
    COUNT_PAD = "average with the padding counted"
    """onnxruntime #24681, TIM-VX #423: the divisor counts padding, or does not."""
    GROUPS = "channels of groups interleaved"
    """oneDNN #352: outputs of groups lie channel by channel instead of group by group."""
    ROWS_LEFT = "rows behind the last whole block"
    """NNPACK #43: rows that do not fill a block of four come from the block before."""
    WRAP = "8 bits wrap at the top"
    """onnxruntime #29727: what should saturate at 127 becomes -128."""
    OLD_RESIDUAL = "sum with another residual"
    """openvino #36295: the memory of a residual stands for another tensor by then."""
    BROADCAST = "operand broadcast along another axis"
    """opencv #23557: element-wise ops of operands with unlike shapes."""
    BATCH_STATISTICS = "normalised by the batch"
    """onnxruntime #26584: batch normalisation takes the batch's own mean and variance."""


def _products(context: Context) -> tuple[Array, Array] | None:
    """The operands of a matrix product with a sum of some length."""
    node = context.node
    if node is None or node.op_type not in ("MatMul", "Gemm", "FusedMatMul", "FusedGemm"):
        return None
    if len(context.inputs) < 2 or any(each.dtype.kind != "f" for each in context.inputs[:2]):
        return None
    left, right = (each.astype(np.float32) for each in context.inputs[:2])
    turned = {each.name: each.i for each in node.attribute}
    left = left.swapaxes(-1, -2) if turned.get("transA") else left
    right = right.swapaxes(-1, -2) if turned.get("transB") else right
    if min(left.ndim, right.ndim) < 2 or left.shape[-1] != right.shape[-2] or left.shape[-1] < 8:
        return None
    return left, right


def _instead(values: Array, exact: Array, wrong: Array) -> Array | None:
    """*values* with what is *wrong* about the product in place of what is *exact*."""
    if exact.shape != values.shape:
        return None
    made: Array = values + (wrong - exact).astype(values.dtype)
    return made


def _pair_sums(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    operands = _products(context)
    if operands is None:
        return None
    left, right = operands
    low, high = min(float(left.min()), 0.0), max(float(left.max()), 0.0)
    step, weight_step = (high - low) / 255, float(np.abs(right).max()) / 127
    if not step or not weight_step or not np.isfinite(step * weight_step):
        return None
    codes = np.round((left - low) / step)
    weights = np.round(right / weight_step)
    exact = np.zeros(values.shape)
    wrong = np.zeros(values.shape)
    for first in range(0, left.shape[-1] - 1, 2):
        pair = codes[..., first : first + 2] @ weights[..., first : first + 2, :]
        if pair.shape != values.shape:
            return None
        exact += pair
        wrong += np.clip(pair, -32768, 32767)
    return _instead(values, exact * step * weight_step, wrong * step * weight_step)


def _half_sums(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    operands = _products(context)
    if operands is None:
        return None
    left, right = operands
    exact = left @ right
    total = np.zeros(exact.shape, dtype=np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(left.shape[-1]):
            product = left[..., place : place + 1] * right[..., place : place + 1, :]
            total = (total.astype(np.float32) + product).astype(np.float16)
        return _instead(values, exact, total.astype(np.float32))


def _half_mean(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    node = context.node
    if node is None or not context.inputs or context.inputs[0].dtype.kind != "f":
        return None
    given = context.inputs[0]
    if node.op_type == "GlobalAveragePool":
        axes = tuple(range(2, given.ndim))
    elif node.op_type == "ReduceMean" and len(context.inputs) > 1:
        axes = tuple(int(axis) for axis in context.inputs[1].reshape(-1))
    elif node.op_type == "ReduceMean":
        axes = next((tuple(each.ints) for each in node.attribute if each.name == "axes"), ())
    else:
        return None
    axes = tuple(axis % given.ndim for axis in axes)
    count = int(np.prod([given.shape[axis] for axis in axes]))
    if count < 16:
        return None
    kept = [axis for axis in range(given.ndim) if axis not in axes]
    rows = given.transpose(*kept, *axes).reshape(-1, count).astype(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.accumulate(rows, axis=1, dtype=np.float16)[:, -1].astype(np.float32)
    return (sums / count).reshape(values.shape).astype(values.dtype)


def _rows_left(values: Array, _rng: np.random.Generator, _context: Context) -> Array | None:
    rows = values.shape[-2] if values.ndim > 1 else 0
    left = rows % 4
    if rows < 5 or not left:
        return None
    wrong = values.copy()
    wrong[..., rows - left :, :] = values[..., rows - left - 4 : rows - 4, :]
    return wrong


def _wrap(values: Array, _rng: np.random.Generator, _context: Context) -> Array | None:
    top = float(values.max())
    step = top / 126.0
    if not step > 0 or not np.isfinite(step):
        return None
    return np.where(values > 125 * step, values - values.dtype.type(256 * step), values)


def _groups(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    node = context.node
    groups = next((a.i for a in node.attribute if a.name == "group"), 1) if node else 1
    channels = values.shape[1] if values.ndim > 2 else 0
    if groups < 2 or channels // groups < 2:
        return None
    parts = values.reshape(values.shape[0], groups, channels // groups, *values.shape[2:])
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(values.shape)


def _old_residual(values: Array, rng: np.random.Generator, context: Context) -> Array | None:
    if context.node is None or context.node.op_type != "Add" or len(context.inputs) != 2:
        return None
    first, second = context.inputs
    if first.shape != values.shape or second.shape != values.shape:
        return None
    others = [
        each
        for each in context.earlier
        if each.shape == values.shape and each is not first and each is not second
    ]
    if not others:
        return None
    wrong: Array = values - second + others[int(rng.integers(len(others)))]
    return wrong


_ELEMENTWISE = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide}


def _broadcast(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    """A vector operand taken in the memory order of the last axis, whatever its axis is."""
    made = _ELEMENTWISE.get(context.node.op_type) if context.node is not None else None
    if made is None or len(context.inputs) != 2 or context.inputs[0].shape != values.shape:
        return None
    full, vector = context.inputs
    sizes = [size for size in vector.shape if size > 1]
    if len(sizes) != 1 or vector.ndim < 2 or vector.shape[-1] > 1 or vector.dtype.kind != "f":
        return None
    order = np.arange(values.size).reshape(values.shape) % sizes[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong: Array = made(full, vector.reshape(-1)[order])
    return wrong


def _batch_statistics(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    node = context.node
    if node is None or node.op_type != "BatchNormalization" or len(context.inputs) < 5:
        return None
    given, scale, bias = (each.astype(np.float32) for each in context.inputs[:3])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    axes = (0, *range(2, given.ndim))
    shape = (1, -1, *[1] * (given.ndim - 2))
    spread = np.sqrt(given.var(axes, keepdims=True) + epsilon)
    wrong = (given - given.mean(axes, keepdims=True)) / spread
    return (wrong * scale.reshape(shape) + bias.reshape(shape)).astype(values.dtype)


REPORTED_VALUE_FAULTS: Mapping[StrEnum, ValueFault] = {
    ReportedFault.PAIR_SUMS: _pair_sums,
    ReportedFault.HALF_SUMS: _half_sums,
    ReportedFault.HALF_MEAN: _half_mean,
    ReportedFault.GROUPS: _groups,
    ReportedFault.ROWS_LEFT: _rows_left,
    ReportedFault.WRAP: _wrap,
    ReportedFault.OLD_RESIDUAL: _old_residual,
    ReportedFault.BROADCAST: _broadcast,
    ReportedFault.BATCH_STATISTICS: _batch_statistics,
}


def _resize(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    if edit.node.op_type != "Resize":
        return None
    name = "coordinate_transformation_mode"
    for attribute in edit.node.attribute:
        if attribute.name == name:
            attribute.s = b"half_pixel" if attribute.s == b"asymmetric" else b"asymmetric"
            return edit
    edit.node.attribute.append(onnx.helper.make_attribute(name, "asymmetric"))
    return edit


def _count_pad(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    if edit.node.op_type != "AveragePool":
        return None
    attributes = {each.name: each for each in edit.node.attribute}
    if "pads" not in attributes or not any(attributes["pads"].ints):
        return None
    counted = attributes.get("count_include_pad")
    if counted is None:
        edit.node.attribute.append(onnx.helper.make_attribute("count_include_pad", 1))
    else:
        counted.i = 1 - counted.i
    return edit


REPORTED_OP_FAULTS: Mapping[StrEnum, OpFault] = {
    ReportedFault.RESIZE: _resize,
    ReportedFault.COUNT_PAD: _count_pad,
}
