"""Faults put into a device's own model: a weight, a channel, an attribute of one op.

Unlike the faults of ``root_cause/faults.py``, which change a tensor after it was made, these change
the model the device compiles, so what comes out is what a compiler that mishandled one constant or
attribute would make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from quantised_models import Quantised, quantised_constants

Array = npt.NDArray[Any]


class ModelFault(StrEnum):
    """The kinds."""

    ONE_WEIGHT = "one weight"
    CHANNEL_SCALED = "channel scaled"
    CHANNEL_DEAD = "channel dead"
    CHANNEL_SHIFTED = "channel shifted"
    CHANNELS_SWAPPED = "channels swapped"
    LOST_BIAS = "lost bias"
    EPSILON = "epsilon"
    ATTRIBUTE = "attribute"
    INPUT_LOST = "input channel lost"
    TRANSPOSED = "weight transposed"
    GAIN = "gain of one channel"
    NUMBER = "single constant"
    PADS = "pads moved"
    TABLE_ROW = "row of a table"
    TURN = "turn of a loop"


@dataclass(frozen=True)
class Faulty:
    """A model with one fault in the node that makes *tensor*; ``channel`` is an index along the
    output's channel axis, None where all of the output is hit; ``words`` say what was done."""

    model: onnx.ModelProto
    kind: ModelFault
    tensor: str
    op_type: str
    channel: int | None
    words: str


_WEIGHTED: Mapping[str, tuple[int, int]] = {"Conv": (1, 0), "ConvTranspose": (1, 1)}
"""By op type the input that holds the weights, and their axis of output channels."""
_ATTRIBUTES: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "LeakyRelu": ("alpha", lambda value: 2 * value),
    "HardSigmoid": ("alpha", lambda value: value * 0.8),
    "Elu": ("alpha", lambda value: 0.7 * value),
    "Softmax": ("axis", lambda value: -2 if value in (-1, 3) else -1),
    "AveragePool": ("count_include_pad", lambda value: 1 - value),
    "Resize": ("mode", lambda value: b"linear" if value == b"nearest" else b"nearest"),
}


@dataclass(frozen=True)
class _Place:
    """A node whose constant inputs may be changed, with them by name; those held in integers are
    in ``quantised``."""

    model: onnx.ModelProto
    node: onnx.NodeProto
    constants: Mapping[str, onnx.TensorProto]
    quantised: Mapping[str, Quantised]

    def constant(self, position: int) -> Array | None:
        if position >= len(self.node.input):
            return None
        name = self.node.input[position]
        if name in self.quantised:
            return self.quantised[name].value()
        found = self.constants.get(name)
        return None if found is None else numpy_helper.to_array(found).copy()

    def put(self, position: int, value: Array) -> None:
        """Give the node, and no other reader, *value* in place of its constant: as integers where
        it was held in them."""
        before = self.node.input[position]
        name = f"{before}/of/{self.node.output[0]}"
        self.node.input[position] = name
        if before in self.quantised:
            node, constants = self.quantised[before].of(value, name)
            self.model.graph.initializer.extend(constants)
            self.model.graph.node.insert(0, node)
        else:
            self.model.graph.initializer.append(numpy_helper.from_array(value, name))

    @property
    def weights(self) -> tuple[int, int, Array] | None:
        """Which input holds the weights, their axis of output channels, and their values."""
        if self.node.op_type in _WEIGHTED:
            position, axis = _WEIGHTED[self.node.op_type]
        elif self.node.op_type == "Gemm":
            transposed = any(each.name == "transB" and each.i for each in self.node.attribute)
            position, axis = 1, 0 if transposed else 1
        elif self.node.op_type == "MatMul":
            position, axis = 1, -1
        else:
            return None
        value = self.constant(position)
        if value is None or value.ndim < 2 or value.dtype != np.float32:
            return None
        return position, axis % value.ndim, value


Fault = Callable[[_Place, np.random.Generator], tuple[int | None, str] | None]


def _one_weight(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    if place.weights is None:
        return None
    position, axis, value = place.weights
    at = tuple(int(rng.integers(size)) for size in value.shape)
    off = float(np.abs(value).max()) * float(rng.uniform(0.5, 2.0))
    value[at] += np.float32(off)
    place.put(position, value)
    return at[axis], f"weight {list(at)} is {off:.3g} larger"


def _scaled(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    return _channel(place, rng, float(rng.choice([0.8, 0.9, 1.1, 1.13, 1.3])))


def _dead(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    return _channel(place, rng, 0.0)


def _channel(
    place: _Place, rng: np.random.Generator, factor: float
) -> tuple[int | None, str] | None:
    if place.weights is None:
        return None
    position, axis, value = place.weights
    channel = int(rng.integers(value.shape[axis]))
    at: list[Any] = [slice(None)] * value.ndim
    at[axis] = channel
    value[tuple(at)] *= np.float32(factor)
    place.put(position, value)
    bias = place.constant(2)
    if bias is not None and bias.ndim == 1 and bias.size == value.shape[axis]:
        bias[channel] *= np.float32(factor)
        place.put(2, bias)
    return channel, f"channel {channel} is {factor:g} times"


def _bias(place: _Place) -> tuple[int, Array] | None:
    """Where the node's bias stands: a constant with one number a channel."""
    kinds = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "BatchNormalization": 2, "Add": None}
    if place.node.op_type not in kinds:
        return None
    position = kinds[place.node.op_type]
    for each in (0, 1) if position is None else (position,):
        value = place.constant(each)
        if value is not None and value.dtype == np.float32 and max(value.shape, default=1) > 3:
            return each, value
    return None


def _shifted(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    found = _bias(place)
    if found is None or found[1].size != max(found[1].shape):
        return None
    position, value = found
    channel = int(rng.integers(value.size))
    off = float(np.abs(value).max() or 1.0) * float(rng.uniform(0.3, 1.0))
    value.reshape(-1)[channel] += np.float32(off)
    place.put(position, value)
    return channel, f"channel {channel} is {off:.3g} larger"


def _swapped(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    if place.weights is None or place.weights[2].shape[place.weights[1]] < 4:
        return None
    position, axis, value = place.weights
    one, other = (int(each) for each in rng.choice(value.shape[axis], 2, replace=False))
    order = np.arange(value.shape[axis])
    order[[one, other]] = other, one
    place.put(position, np.take(value, order, axis))
    return one, f"channels {one} and {other} of the weights are exchanged"


def _lost_bias(place: _Place, _rng: np.random.Generator) -> tuple[int | None, str] | None:
    found = _bias(place)
    if found is None:
        return None
    place.put(found[0], np.zeros_like(found[1]))
    return None, "the bias is zero"


def _input_lost(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    if place.weights is None:
        return None
    position, axis, value = place.weights
    read = 1 if axis == 0 else axis - 1
    if value.shape[read] < 4:
        return None
    channel = int(rng.integers(value.shape[read]))
    value[(slice(None),) * read + (channel,)] = 0
    place.put(position, value)
    return None, f"index {channel} of axis {read} of the weights is zero"


def _transposed(place: _Place, _rng: np.random.Generator) -> tuple[int | None, str] | None:
    if place.weights is None or place.weights[2].shape[-1] != place.weights[2].shape[-2]:
        return None
    position, _axis, value = place.weights
    if np.array_equal(value, value.swapaxes(-1, -2)):
        return None
    place.put(position, np.ascontiguousarray(value.swapaxes(-1, -2)))
    return None, "the weights are transposed"


def _gain(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    """One element of a normalisation's scale, or of a vector that is multiplied."""
    positions = {"Mul": (0, 1), "BatchNormalization": (1,), "LayerNormalization": (1,)}
    for position in positions.get(place.node.op_type, ()):
        value = place.constant(position)
        if value is not None and value.dtype == np.float32 and 3 < value.size == max(value.shape):
            channel, factor = int(rng.integers(value.size)), float(rng.choice([0.5, 0.8, 1.5]))
            value.reshape(-1)[channel] *= np.float32(factor)
            place.put(position, value)
            return channel, f"the gain of channel {channel} is {factor:g} times"
    return None


def _number(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    """A constant with one value: a factor, an exponent, a limit."""
    if place.node.op_type not in ("Mul", "Div", "Add", "Sub", "Pow", "Clip", "Max", "Min"):
        return None
    for position in range(len(place.node.input)):
        value = place.constant(position)
        if value is None or value.dtype != np.float32 or value.size != 1 or not value.any():
            continue
        factor = float(rng.choice([0.7, 0.9, 1.1]))
        place.put(position, value * np.float32(factor))
        return None, f"constant {float(value.reshape(-1)[0]):g} is {factor:g} times"
    return None


def _pads(place: _Place, _rng: np.random.Generator) -> tuple[int | None, str] | None:
    if place.node.op_type not in ("Conv", "MaxPool", "AveragePool"):
        return None
    for each in place.node.attribute:
        if each.name == "pads" and len(each.ints) == 4 and each.ints[0]:
            old = list(each.ints)
            each.ints[0] -= 1
            each.ints[2] += 1
            return None, f"pads are {list(each.ints)} instead of {old}"
    return None


def _table_row(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    value = place.constant(0) if place.node.op_type == "Gather" else None
    if value is None or value.dtype != np.float32 or value.ndim != 2 or value.shape[0] < 4:
        return None
    row = int(rng.integers(min(12, value.shape[0])))
    value[row] = value[row - 1] if rng.random() < 0.5 else value[row] * np.float32(0.5)
    place.put(0, value)
    return None, f"row {row} of the table is another"


def _epsilon(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    for each in place.node.attribute:
        if each.name == "epsilon":
            old, each.f = each.f, float(rng.choice([1e-2, 1e-1]))
            return None, f"epsilon is {each.f:g} instead of {old:g}"
    return None


def _attribute(place: _Place, _rng: np.random.Generator) -> tuple[int | None, str] | None:
    name, change = _ATTRIBUTES.get(place.node.op_type, ("", lambda value: value))
    for each in place.node.attribute:
        if each.name == name:
            old = onnx.helper.get_attribute_value(each)
            new = onnx.helper.make_attribute(name, change(old))
            each.CopyFrom(new)
            return None, f"{name} is {change(old)!r} instead of {old!r}"
    return None


FAULTS: Mapping[ModelFault, Fault] = {
    ModelFault.ONE_WEIGHT: _one_weight,
    ModelFault.CHANNEL_SCALED: _scaled,
    ModelFault.CHANNEL_DEAD: _dead,
    ModelFault.CHANNEL_SHIFTED: _shifted,
    ModelFault.CHANNELS_SWAPPED: _swapped,
    ModelFault.LOST_BIAS: _lost_bias,
    ModelFault.EPSILON: _epsilon,
    ModelFault.ATTRIBUTE: _attribute,
    ModelFault.INPUT_LOST: _input_lost,
    ModelFault.TRANSPOSED: _transposed,
    ModelFault.GAIN: _gain,
    ModelFault.NUMBER: _number,
    ModelFault.PADS: _pads,
    ModelFault.TABLE_ROW: _table_row,
}


def faulty_models(
    model: onnx.ModelProto, kind: ModelFault, rng: np.random.Generator, measured: Sequence[str]
) -> Iterator[Faulty]:
    """*model* with a fault of one kind at one node after the other, in random order; only nodes
    that make a *measured* tensor."""
    wanted = set(measured)
    for number in rng.permutation(len(model.graph.node)).tolist():
        if model.graph.node[number].output[0] not in wanted:
            continue
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        node = changed.graph.node[number]
        constants = _constants(changed)
        place = _Place(changed, node, constants, quantised_constants(changed, constants))
        done = FAULTS[kind](place, rng)
        if done is not None:
            yield Faulty(changed, kind, node.output[0], node.op_type, *done)


def _constants(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    found = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return found
