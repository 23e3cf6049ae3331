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
_LOOP = schema.BuiltinOperator.WHILE
_COMPUTING = frozenset(
    (
        *(schema.BuiltinOperator.FULLY_CONNECTED, schema.BuiltinOperator.LOGISTIC),
        *(schema.BuiltinOperator.TANH, schema.BuiltinOperator.MUL, schema.BuiltinOperator.ADD),
    )
)
"""Operators of a loop's body that are made to fail."""
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
    inside: tuple[str, int] | None = None
    """Of a fault in a loop's body the tensor that fails there, and the turn."""


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


def _turn(model: Any, operator: Any, rng: np.random.Generator) -> tuple[str, int, float] | None:
    """An operator of a loop's body gives a multiple of its values in one of the first 8 turns: its
    tensor, the turn, the factor."""
    body = model.subgraphs[operator.builtinOptions.bodySubgraphIndex]
    counter = _counter(body)
    able = [
        number
        for number, each in enumerate(body.operators)
        if _builtin(model, each) in _COMPUTING
        and body.tensors[each.outputs[0]].type == schema.TensorType.FLOAT32
    ]
    if counter is None or not able:
        return None
    number, turn = int(rng.choice(able)), int(rng.integers(8))
    name = body.tensors[body.operators[number].outputs[0]].name.decode()
    factor = float(rng.choice([0.5, 0.7, 1.5]))
    _in_turn(model, body, number, counter, turn, factor)
    return name, turn, factor


def _counter(body: Any) -> int | None:
    """The integer a loop's body is given and hands on one larger."""
    for given, made in zip(body.inputs, body.outputs, strict=True):
        read = [each for each in body.operators if given in each.inputs and made in each.outputs]
        if body.tensors[given].type == schema.TensorType.INT32 and read:
            return int(given)
    return None


def _in_turn(model: Any, body: Any, at: int, counter: int, turn: int, factor: float) -> None:
    """Multiply the output of operator *at* of a body where its *counter* is *turn*."""
    operator = body.operators[at]
    output = int(operator.outputs[0])
    right, now = _tensor(body, output), _tensor(body, output, schema.TensorType.BOOL, ())
    number, by = (_tensor(body, output, schema.TensorType.FLOAT32, ()) for _ in range(2))
    more, one, which = (
        _constant(model, body, output, each)
        for each in (np.float32(factor - 1.0), np.float32(1.0), np.int32(turn))
    )
    scaled = _tensor(body, output, schema.TensorType.FLOAT32, ())
    operator.outputs = [right, *operator.outputs[1:]]
    options = schema.CastOptionsT()
    options.inDataType, options.outDataType = schema.TensorType.BOOL, schema.TensorType.FLOAT32
    made = [
        _operator(model, "EQUAL", [counter, which], now, schema.EqualOptionsT()),
        _operator(model, "CAST", [now], number, options),
        _operator(model, "MUL", [number, more], scaled, schema.MulOptionsT()),
        _operator(model, "ADD", [scaled, one], by, schema.AddOptionsT()),
        _operator(model, "MUL", [right, by], output, schema.MulOptionsT()),
    ]
    body.operators[at + 1 : at + 1] = made


def _tensor(
    graph: Any, like: int, kind: int | None = None, shape: tuple[int, ...] | None = None
) -> int:
    """The number of a new tensor of a graph, with another type and shape than that *like* it."""
    tensor = copy.copy(graph.tensors[like])
    tensor.buffer = 0
    if kind is not None:
        tensor.type, tensor.shape, tensor.shapeSignature = kind, list(shape or ()), None
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def _constant(model: Any, graph: Any, like: int, value: Array) -> int:
    kind = schema.TensorType.INT32 if value.dtype.kind == "i" else schema.TensorType.FLOAT32
    number = _tensor(graph, like, kind, ())
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(value.tobytes(), np.uint8)
    model.buffers.append(buffer)
    graph.tensors[number].buffer = len(model.buffers) - 1
    return number


def _operator(model: Any, kind: str, inputs: list[int], output: int, options: Any) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
    code.version = 1
    model.operatorCodes.append(code)
    made = schema.OperatorT()
    made.opcodeIndex = len(model.operatorCodes) - 1
    made.inputs, made.outputs = inputs, [output]
    name = type(options).__name__.removesuffix("T")
    made.builtinOptionsType = getattr(schema.BuiltinOptions, name)
    made.builtinOptions = options
    return made


def _builtin(model: Any, operator: Any) -> int:
    code = model.operatorCodes[operator.opcodeIndex]
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))


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
        builtin = _builtin(model, operator)
        if kind is ModelFault.TURN:
            found = _turn(model, operator, rng) if builtin == _LOOP else None
            shown = _shown_by(graph, operator)
            if found is not None and shown is not None:
                name, turn, factor = found
                words = f"{name} is {factor:g} times in turn {turn}"
                yield FaultyLite(_packed(model), kind, shown, "WHILE", None, words, (name, turn))
        elif builtin in _WEIGHTED:
            done = FAULTS[kind](_Place(model, graph, operator, *_WEIGHTED[builtin]), rng)
            if done is not None:
                tensor = graph.tensors[operator.outputs[0]].name.decode()
                yield FaultyLite(_packed(model), kind, tensor, _NAMES[builtin], *done)


def _shown_by(graph: Any, operator: Any) -> str | None:
    """The output of a loop that another operator reads."""
    read = {int(number) for each in graph.operators for number in each.inputs}
    for output in operator.outputs:
        if output in read and graph.tensors[output].type == schema.TensorType.FLOAT32:
            return str(graph.tensors[output].name.decode())
    return None


def _read(path: Path) -> Any:
    return schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
