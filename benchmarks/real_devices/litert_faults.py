"""Faults put into a ``.tflite`` file: weights, one channel of them, or a bias.

As in ``model_faults.py`` it is the device's own model that changes, here with weights in floats or
in integers with scales. A channel is an index along the last axis of the output.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from model_faults import ModelFault

Array = npt.NDArray[Any]

_WEIGHTED: Mapping[int, tuple[int, int]] = {
    schema.BuiltinOperator.CONV_2D: (0, 2),
    schema.BuiltinOperator.FULLY_CONNECTED: (0, 2),
    schema.BuiltinOperator.DEPTHWISE_CONV_2D: (3, 2),
    schema.BuiltinOperator.TRANSPOSE_CONV: (0, 3),
}
"""By operator the axis of its weights (input 1) along which its output channels lie, and the
position of its bias."""
_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items()}
_TYPES: Mapping[int, str] = {
    schema.TensorType.FLOAT32: "<f4",
    schema.TensorType.INT8: "i1",
    schema.TensorType.INT32: "<i4",
}


@dataclass(frozen=True)
class FaultyLite:
    """A ``.tflite`` file's bytes with one fault in the operator that makes *tensor*."""

    content: bytes
    kind: ModelFault
    tensor: str
    op_type: str
    channel: int | None
    words: str


@dataclass(frozen=True)
class _Place:
    """An operator of a model that may be changed."""

    model: Any
    graph: Any
    operator: Any
    axis: int
    bias_at: int

    def real(self, position: int) -> Array | None:
        """The constant at an input as real numbers, whatever it is held in."""
        held = self._held(position)
        if held is None:
            return None
        scale, zero = self._scale(position, held.ndim)
        return (held.astype(np.float64) - zero) * scale

    def put(self, position: int, value: Array) -> None:
        """Give the operator, and no other reader, *value* held as the constant was."""
        held = self._held(position)
        assert held is not None
        scale, zero = self._scale(position, held.ndim)
        steps = value / scale + zero
        if held.dtype.kind == "i":
            most = np.iinfo(held.dtype).max  # the format has no -128 in weights: kernels fail on it
            steps = np.clip(np.rint(steps), -most, most)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(steps.astype(held.dtype).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        tensor = copy.copy(self.graph.tensors[self.operator.inputs[position]])
        tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        self.operator.inputs = list(self.operator.inputs)
        self.operator.inputs[position] = len(self.graph.tensors) - 1

    def _held(self, position: int) -> Array | None:
        if position >= len(self.operator.inputs) or self.operator.inputs[position] < 0:
            return None
        tensor = self.graph.tensors[self.operator.inputs[position]]
        data = self.model.buffers[tensor.buffer].data
        if data is None or not len(data) or tensor.type not in _TYPES:
            return None
        return np.frombuffer(bytes(data), _TYPES[tensor.type]).reshape(tensor.shape)

    def _scale(self, position: int, ndim: int) -> tuple[Array, Array]:
        found = self.graph.tensors[self.operator.inputs[position]].quantization
        if found is None or found.scale is None or not len(found.scale):
            return np.ones(()), np.zeros(())
        scale, zero = (np.asarray(each, np.float64) for each in (found.scale, found.zeroPoint))
        if scale.size == 1:
            return scale.reshape(()), zero.reshape(())
        shape = [-1 if n == found.quantizedDimension else 1 for n in range(ndim)]
        return scale.reshape(shape), zero.reshape(shape)


Fault = Callable[[_Place, np.random.Generator], tuple[int | None, str] | None]


def _one_weight(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    value = place.real(1)
    if value is None:
        return None
    at = tuple(int(rng.integers(size)) for size in value.shape)
    # to the far end of what the channel holds: further, and integers would clip it
    channel = np.take(value, at[place.axis], place.axis)
    new = float(np.abs(channel).max()) * (-1 if value[at] > 0 else 1)
    words = f"weight {list(at)} is {new - value[at]:.3g} larger"
    value[at] = new
    place.put(1, value)
    return at[place.axis], words


def _scaled(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    return _channel(place, rng, float(rng.choice([0.7, 0.8, 0.87, 0.9])))


def _dead(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    return _channel(place, rng, 0.0)


def _channel(
    place: _Place, rng: np.random.Generator, factor: float
) -> tuple[int | None, str] | None:
    value, bias = place.real(1), place.real(place.bias_at)
    if value is None:
        return None
    channel = int(rng.integers(value.shape[place.axis]))
    np.moveaxis(value, place.axis, 0)[channel] *= factor
    place.put(1, value)
    if bias is not None:
        bias[channel] *= factor
        place.put(place.bias_at, bias)
    return channel, f"channel {channel} is {factor:g} times"


def _shifted(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    bias = place.real(place.bias_at)
    if bias is None or bias.size < 4:
        return None
    channel = int(rng.integers(bias.size))
    off = float(np.abs(bias).max() or 1.0) * float(rng.uniform(0.3, 1.0))
    bias[channel] += off
    place.put(place.bias_at, bias)
    return channel, f"channel {channel} is {off:.3g} larger"


def _swapped(place: _Place, rng: np.random.Generator) -> tuple[int | None, str] | None:
    value = place.real(1)
    if value is None or value.shape[place.axis] < 4:
        return None
    one, other = (int(each) for each in rng.choice(value.shape[place.axis], 2, replace=False))
    slices = np.moveaxis(value, place.axis, 0)
    slices[[one, other]] = slices[[other, one]]
    place.put(1, value)
    return one, f"channels {one} and {other} of the weights are exchanged"


def _lost_bias(place: _Place, _rng: np.random.Generator) -> tuple[int | None, str] | None:
    bias = place.real(place.bias_at)
    if bias is None:
        return None
    place.put(place.bias_at, np.zeros_like(bias))
    return None, "the bias is zero"


FAULTS: Mapping[ModelFault, Fault] = {
    ModelFault.ONE_WEIGHT: _one_weight,
    ModelFault.CHANNEL_SCALED: _scaled,
    ModelFault.CHANNEL_DEAD: _dead,
    ModelFault.CHANNEL_SHIFTED: _shifted,
    ModelFault.CHANNELS_SWAPPED: _swapped,
    ModelFault.LOST_BIAS: _lost_bias,
}


def faulty_files(path: Path, kind: ModelFault, rng: np.random.Generator) -> Iterator[FaultyLite]:
    """The model of a file with a fault of one kind at one operator after the other, in random
    order."""
    count = len(_read(path).subgraphs[0].operators)
    for number in rng.permutation(count).tolist():
        model = _read(path)
        graph = model.subgraphs[0]
        operator = graph.operators[number]
        code = model.operatorCodes[operator.opcodeIndex]
        builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
        if builtin not in _WEIGHTED:
            continue
        done = FAULTS[kind](_Place(model, graph, operator, *_WEIGHTED[builtin]), rng)
        if done is not None:
            tensor = graph.tensors[operator.outputs[0]].name.decode()
            yield FaultyLite(_packed(model), kind, tensor, _NAMES[builtin], *done)


def _read(path: Path) -> Any:
    return schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
