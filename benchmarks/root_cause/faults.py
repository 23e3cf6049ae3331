"""Eighteen kinds of fault as accelerators and their compilers have them.

Twelve change the values of one tensor, six change the op itself (its weights, attributes
or constants). Each is a function of a random generator, so a seed gives the same fault again.
A fault that does not apply to a tensor or op gives None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx

Array: TypeAlias = npt.NDArray[Any]


class FaultKind(StrEnum):
    """The kinds; the first twelve change values, the others the op."""

    GAIN_2 = "gain 2 %"
    GAIN_03 = "gain 0.3 %"
    CLIP = "clip"
    SHIFT = "shift"
    LAYOUT = "layout"
    ZERO_TAIL = "zero tail"
    ONE_NAN = "one NaN"
    GRID = "6-bit grid"
    STALE = "stale buffer"
    FLUSH = "flush to zero"
    DEAD_CHANNEL = "dead channel"
    MISSING_OP = "missing op"
    WEIGHT_NOISE = "weight noise"
    LOST_BIAS = "lost bias"
    ACTIVATION = "wrong activation"
    CONSTANT = "wrong constant"
    AXIS = "wrong axis"
    PADS = "asymmetric pads"


@dataclass(frozen=True)
class Context:
    """What is around the tensor: the values its op reads, others made before it, the op."""

    inputs: Sequence[Array] = ()
    earlier: Sequence[Array] = ()
    node: onnx.NodeProto | None = None


@dataclass
class NodeEdit:
    """An op about to be changed: *node* is a copy, *constants* its constant inputs by name."""

    node: onnx.NodeProto
    constants: dict[str, Array] = field(default_factory=dict)


ValueFault: TypeAlias = Callable[[Array, np.random.Generator, Context], Array | None]
OpFault: TypeAlias = Callable[[NodeEdit, np.random.Generator], NodeEdit | None]


def faulty_values(
    fault: ValueFault, values: Array, rng: np.random.Generator, context: Context
) -> Array | None:
    """*values* with the fault, same shape and element type; None if it does not apply."""
    if values.dtype.kind != "f" or values.size == 0:
        return None
    wrong = fault(values, rng, context)
    if wrong is None or np.array_equal(wrong, values, equal_nan=True):
        return None
    return wrong.astype(values.dtype, copy=False)


def faulty_op(fault: OpFault, edit: NodeEdit, rng: np.random.Generator) -> NodeEdit | None:
    """The op with the fault, as a copy; None if it does not apply."""
    node = onnx.NodeProto()
    node.CopyFrom(edit.node)
    return fault(NodeEdit(node, dict(edit.constants)), rng)


def _gain(factor: float) -> ValueFault:
    def scaled(values: Array, rng: np.random.Generator, _context: Context) -> Array:
        sign = 1 if rng.random() < 0.5 else -1
        wrong: Array = values * values.dtype.type(1 + sign * (factor - 1))
        return wrong

    return scaled


def _clip(values: Array, rng: np.random.Generator, _context: Context) -> Array | None:
    bound = np.quantile(np.abs(values), rng.uniform(0.97, 0.995))
    return np.clip(values, -bound, bound) if bound > 0 else None


def _shift(values: Array, rng: np.random.Generator, _context: Context) -> Array | None:
    return np.roll(values, int(rng.integers(1, 4)), axis=-1) if values.shape[-1:] > (1,) else None


def _layout(values: Array, _rng: np.random.Generator, _context: Context) -> Array | None:
    """The memory of the channels-last tensor, read as channels-first (or a transposed matrix)."""
    if values.ndim < 2 or sum(size > 1 for size in values.shape) < 2:
        return None
    order = (0, *range(2, values.ndim), 1) if values.ndim > 2 else (1, 0)
    return np.ascontiguousarray(values.transpose(order)).reshape(values.shape)


def _zero_tail(values: Array, rng: np.random.Generator, _context: Context) -> Array | None:
    tail = max(1, int(values.size * rng.uniform(0.02, 0.2)))
    if tail >= values.size:
        return None
    wrong = values.copy()
    wrong.reshape(-1)[-tail:] = 0
    return wrong


def _one_nan(values: Array, rng: np.random.Generator, _context: Context) -> Array:
    wrong = values.copy()
    wrong.reshape(-1)[rng.integers(values.size)] = np.nan
    return wrong


def _grid(values: Array, _rng: np.random.Generator, _context: Context) -> Array | None:
    step = float(np.abs(values).max()) / 31
    return np.round(values / step) * step if step > 0 and np.isfinite(step) else None


def _stale(values: Array, rng: np.random.Generator, context: Context) -> Array | None:
    """What an earlier op left in the buffer."""
    large = [
        each for each in context.earlier if each.size >= values.size and each.dtype.kind == "f"
    ]
    if not large:
        return None
    chosen = large[int(rng.integers(len(large)))].reshape(-1)
    return chosen[: values.size].reshape(values.shape).copy()


def _flush(values: Array, rng: np.random.Generator, _context: Context) -> Array:
    bound = np.quantile(np.abs(values), rng.uniform(0.2, 0.5))
    return np.where(np.abs(values) <= bound, values.dtype.type(0), values)


def _dead_channel(values: Array, rng: np.random.Generator, _context: Context) -> Array | None:
    axis = 1 if values.ndim in (4, 5) else values.ndim - 1
    if axis < 0 or values.shape[axis] < 4:
        return None
    wrong = values.copy()
    places: list[Any] = [slice(None)] * values.ndim
    places[axis] = int(rng.integers(values.shape[axis]))
    wrong[tuple(places)] = 0
    return wrong


def _missing_op(values: Array, _rng: np.random.Generator, context: Context) -> Array | None:
    """The op is skipped: what it reads comes out."""
    for given in context.inputs:
        if given.shape == values.shape and given.dtype.kind == "f":
            return given.copy()
    return None


VALUE_FAULTS: Mapping[StrEnum, ValueFault] = {
    FaultKind.GAIN_2: _gain(1.02),
    FaultKind.GAIN_03: _gain(1.003),
    FaultKind.CLIP: _clip,
    FaultKind.SHIFT: _shift,
    FaultKind.LAYOUT: _layout,
    FaultKind.ZERO_TAIL: _zero_tail,
    FaultKind.ONE_NAN: _one_nan,
    FaultKind.GRID: _grid,
    FaultKind.STALE: _stale,
    FaultKind.FLUSH: _flush,
    FaultKind.DEAD_CHANNEL: _dead_channel,
    FaultKind.MISSING_OP: _missing_op,
}

_WEIGHTED = frozenset(
    ("Conv", "ConvTranspose", "Gemm", "MatMul", "FusedConv", "FusedGemm", "FusedMatMul")
)


def _weight_noise(edit: NodeEdit, rng: np.random.Generator) -> NodeEdit | None:
    if edit.node.op_type not in _WEIGHTED:
        return None
    for name in edit.node.input:
        weights = edit.constants.get(name)
        if weights is not None and weights.ndim > 1 and weights.dtype.kind == "f":
            noise = rng.standard_normal(weights.shape) * float(weights.std()) * 0.02
            edit.constants[name] = (weights + noise).astype(weights.dtype)
            return edit
    return None


def _lost_bias(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    node = edit.node
    if node.op_type not in _WEIGHTED or len(node.input) < 3 or not node.input[2]:
        return None
    bias = edit.constants.get(node.input[2])
    if bias is None or not bias.any():
        return None
    edit.constants[node.input[2]] = np.zeros_like(bias)
    return edit


_CONFUSED = {
    "Relu": "LeakyRelu",
    "LeakyRelu": "Relu",
    "Sigmoid": "HardSigmoid",
    "HardSigmoid": "Sigmoid",
    "HardSwish": "Relu",
    "Tanh": "Softsign",
    "Softplus": "Relu",
    "Erf": "Tanh",
    "Elu": "LeakyRelu",
    "Exp": "Softplus",
}


def _activation(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    other = _CONFUSED.get(edit.node.op_type)
    if other is None:
        return None
    edit.node.op_type = other
    del edit.node.attribute[:]
    if other == "LeakyRelu":
        edit.node.attribute.append(onnx.helper.make_attribute("alpha", 0.1))
    return edit


def _constant(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    """Another epsilon, exponent, alpha or scalar operand."""
    for attribute in edit.node.attribute:
        if attribute.name == "epsilon":
            attribute.f *= 1000
            return edit
        if attribute.name in ("alpha", "beta") and attribute.f and edit.node.op_type != "Gemm":
            attribute.f *= 1.25
            return edit
    if edit.node.op_type not in ("Add", "Sub", "Mul", "Div", "Pow", "Clip", "Max", "Min"):
        return None
    for name in edit.node.input:
        value = edit.constants.get(name)
        if value is not None and value.size == 1 and value.dtype.kind == "f" and value.any():
            edit.constants[name] = (value * value.dtype.type(1.25)).astype(value.dtype)
            return edit
    return None


def _axis(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    """Another order of a Concat's operands, axis of a Softmax or order of a Transpose."""
    node = edit.node
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Concat" and len(set(node.input)) > 1:
        names = list(node.input)
        node.input[:] = [*names[1:], names[0]]
        return edit
    if node.op_type == "Softmax":
        axis = attributes.get("axis")
        if axis is None:
            node.attribute.append(onnx.helper.make_attribute("axis", -2))
        else:
            axis.i = axis.i - 1
        return edit
    if node.op_type == "Transpose" and "perm" in attributes:
        perm = list(attributes["perm"].ints)
        if len(perm) < 3:
            return None
        perm[-1], perm[-2] = perm[-2], perm[-1]
        attributes["perm"].ints[:] = perm
        return edit
    return None


def _pads(edit: NodeEdit, _rng: np.random.Generator) -> NodeEdit | None:
    """What belongs at both ends of the last axis lies at one of them."""
    for attribute in edit.node.attribute:
        if attribute.name != "pads":
            continue
        pads = list(attribute.ints)
        begin, end = len(pads) // 2 - 1, len(pads) - 1
        if pads[begin] > 0:
            pads[begin], pads[end] = pads[begin] - 1, pads[end] + 1
            attribute.ints[:] = pads
            return edit
    return None


OP_FAULTS: Mapping[StrEnum, OpFault] = {
    FaultKind.WEIGHT_NOISE: _weight_noise,
    FaultKind.LOST_BIAS: _lost_bias,
    FaultKind.ACTIVATION: _activation,
    FaultKind.CONSTANT: _constant,
    FaultKind.AXIS: _axis,
    FaultKind.PADS: _pads,
}
