"""Tensors a device holds in integers, each with a scale and a zero point of its own.

Graphs of TensorFlow Lite have no quantisers between their ops: every tensor says its own grid, and
kernels compute from grid to grid in fixed point. So each output is rounded to its grid, and clipped
to its range; weights are rounded as well. Where floats go in and come out and only the weight is
held in integers, the kernel quantises what it is given with scales of the values it meets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.graphs.matching.constants import constant_ops
from divergraph.rootcause.arithmetic.families import is_one_product
from divergraph.rootcause.devices.quantisers import RANGES, Quantiser, Quantisers
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DType,
    Framework,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.reach import reached

_NARROW = frozenset(RANGES) - {DType.INT32}
_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})
_MOST_OPS = 64
"""Golden ops that are looked through for the weight of one device op. Bounds cost."""


@dataclass(frozen=True, slots=True)
class WeightQuantiser(Quantiser):
    """Takes the scale from the weight itself, as converters do: its range, or that of each of
    ``slices`` slices, lies on the integers.

    The scales in the device's graph would not do: other ops may have been folded into the weight
    there. That moves values and scale of a slice alike, so the rounding stays the same.
    """

    slices: int = 1

    def __call__(self, value: Array, moved: float = 0.0) -> Array:
        """*value* (float) quantised and dequantised, in its dtype, after it was *moved*."""
        axes = [n for n, length in enumerate(value.shape) if length == self.slices]
        axis = axes[0 if self.axis == 0 else -1] if axes and self.slices > 1 else None
        others = tuple(n for n in range(value.ndim) if n != axis)
        wide = np.asarray(value, np.float64)
        smallest = np.min(wide, others, keepdims=True, initial=0.0)
        largest = np.max(wide, others, keepdims=True, initial=0.0)
        if self.zero.any():
            scale = (largest - smallest) / (self.high - self.low)
        else:
            scale = np.maximum(largest, -smallest) / self.high
            smallest = -scale * self.high
        scale = np.where(scale > 0.0, scale, 1.0)
        start, width = np.rint(smallest / scale), self.high - self.low
        with np.errstate(all="ignore"):
            steps = np.rint(wide / scale + moved * 2.0**-24 * width)
            steps = np.clip(steps, start, start + width)
            quantised: Array = np.asarray(steps * scale, value.dtype)
        return quantised


def with_held(
    quantisers: Quantisers, data: RunData, comparisons: Iterable[Comparison]
) -> Quantisers:
    """*quantisers*, with what the device holds in integers by scales of its tensors."""
    integers = dict(_held(data.device))
    inside = _quantising_inside(data.device)
    if not integers and not inside:
        return quantisers
    golden = data.golden.op_index()
    outputs = [item for item in comparisons if item.io is TensorIO.OUTPUT]
    matches = {
        TensorRef(item.op, item.port): item.golden
        for item in outputs
        if item.golden is not None and item.golden.op in golden
    }
    compared = {item.golden for item in outputs if item.compared}
    by_tensor: dict[str, Quantiser] = {}
    readers: dict[str, frozenset[str]] = {}
    for output, quantiser in integers.items():
        if output in matches:
            match = matches[output]
            name = golden[match.op].outputs[match.port].name
            by_tensor[name] = quantiser
            if match in compared:  # those who read it are fed the device's values, already rounded
                readers[name] = frozenset()
    dynamic: set[str] = set()
    kernels: set[str] = set()
    for name, quantiser, op, user in _weights(data, matches):
        by_tensor[name] = quantiser
        readers[name] = readers.get(name, frozenset()) | {op}
        if user.id in inside and is_one_product(golden[op]):
            dynamic.add(op)
            kernels.add(user.id)
    return replace(
        quantisers,
        by_tensor={**by_tensor, **quantisers.by_tensor},
        unseen=quantisers.unseen | (inside - kernels),
        readers={**readers, **quantisers.readers},
        held=integers,
        dynamic=frozenset(dynamic),
        dynamic_ops=frozenset(kernels),
    )


def _held(device: ModelGraph) -> Iterator[tuple[TensorRef, Quantiser]]:
    """The outputs in integers that tell one scale and one zero point."""
    for op in device.ops:
        for port, tensor in enumerate(op.outputs):
            if tensor.dtype not in RANGES:
                continue
            end = f"_{port}" if port else ""
            scale_and_zero = _numbers(op, f"scale{end}"), _numbers(op, f"zero_point{end}")
            if len(scale_and_zero[0]) == len(scale_and_zero[1]) == 1 and scale_and_zero[0][0] > 0.0:
                scale, zero = (np.array(numbers) for numbers in scale_and_zero)
                yield TensorRef(op.id, port), Quantiser(scale, zero, *RANGES[tensor.dtype])


def _numbers(op: Op, name: str) -> tuple[float, ...]:
    attr = op.attrs.get(name)
    if not isinstance(attr, tuple):
        return ()
    return tuple(number for number in attr if isinstance(number, int | float))


def _narrow_constants(device: ModelGraph) -> Mapping[str, DType]:
    """The constants in few bits, by name."""
    return {
        constant.tensor.name: constant.tensor.dtype
        for constant in device.constants
        if constant.tensor.dtype in _NARROW
    }


def _quantising_inside(device: ModelGraph) -> frozenset[str]:
    """The ops that take and give floats, but whose weights are integers with a scale; and those
    with such ops in their bodies."""
    narrow = _narrow_constants(device)
    refs = {ref for ref, kind in _made(device) if kind in _FLOATS}
    fed = {tensor.name for tensor in device.inputs if tensor.dtype in _FLOATS}

    def is_float(ref: InputRef) -> bool:
        return ref.tensor in fed if ref.producer is None else ref.producer in refs

    inside = [
        op.id
        for op in device.ops
        if any(output.dtype in _FLOATS for output in op.outputs)
        and any(_scales(op, n) and ref.tensor in narrow for n, ref in _constants(op))
        and any(is_float(ref) for ref in op.inputs if ref is not None)
    ]
    ops = device.op_index()
    owners = {body.name: body.owner for body in device.subgraphs}

    def around(op_id: str) -> list[str]:
        body = ops[op_id].subgraph
        return [owners[body]] if body in owners else []

    return frozenset(reached(inside, around))


def _made(device: ModelGraph) -> Iterator[tuple[TensorRef, DType | None]]:
    for op in device.ops:
        for port, tensor in enumerate(op.outputs):
            yield TensorRef(op.id, port), tensor.dtype


def _constants(op: Op) -> Iterator[tuple[int, InputRef]]:
    """The inputs of *op* that nobody makes, with their positions."""
    for position, ref in enumerate(op.inputs):
        if ref is not None and ref.producer is None:
            yield position, ref


def _scales(op: Op, position: int) -> int:
    """How many scales the constant at *position* has."""
    attr = op.attrs.get(f"input_{position}_scales", 0)
    return attr if isinstance(attr, int) else 0


def _weights(
    data: RunData, matches: Mapping[TensorRef, TensorRef]
) -> Iterator[tuple[str, Quantiser, str, Op]]:
    """The golden weights the device holds in integers, each with its quantiser, a reader and the
    device's op: those of as many elements, behind the output that golden shares with that op."""
    narrow = _narrow_constants(data.device)
    sizes = {
        constant.tensor.name: _size(constant.tensor.shape) for constant in data.device.constants
    }
    golden = GoldenWeights(data, frozenset(matches.values()))
    for op in data.device.ops:
        start = matches.get(TensorRef(op.id, 0))
        if start is None:
            continue
        for position, ref in _constants(op):
            count = _scales(op, position)
            if not count or ref.tensor not in narrow:
                continue
            low, high = RANGES[narrow[ref.tensor]]
            zero = op.attrs.get(f"input_{position}_zero_point", 0)
            plain = np.array(float(zero) if isinstance(zero, int) else 0.0)
            for name, reader, axis in golden.behind(start, sizes[ref.tensor]):
                one = np.ones(())
                yield name, WeightQuantiser(one, plain, low, high, axis, slices=count), reader, op


class GoldenWeights:
    """The constants behind golden tensors, up to the tensors *stops*."""

    def __init__(self, data: RunData, stops: frozenset[TensorRef]) -> None:
        golden = data.golden
        self._ops = golden.op_index()
        self._stops = stops
        self._made = constant_ops(golden)
        self._fed = {tensor.name for tensor in golden.inputs}
        self._shapes = {
            constant.tensor.name: constant.tensor.shape for constant in golden.constants
        }
        self._first = golden.framework is Framework.ONNX

    def behind(self, start: TensorRef, size: int) -> Iterator[tuple[str, str, int]]:
        """Name, reader and axis of the output channels of each constant of *size* elements."""
        waiting, seen = [start.op], {start.op}
        while waiting and len(seen) <= _MOST_OPS:
            op = self._ops[waiting.pop()]
            for ref in op.inputs:
                if ref is None:
                    continue
                if self._is_constant(ref):
                    if self._size(ref) == size > 1:
                        yield ref.tensor, op.id, self._axis(op)
                elif (producer := ref.producer) is not None and producer not in self._stops:
                    waiting += [producer.op] if producer.op not in seen else []
                    seen.add(producer.op)

    def _is_constant(self, ref: InputRef) -> bool:
        if ref.producer is None:
            return ref.tensor not in self._fed
        return ref.producer.op in self._made

    def _size(self, ref: InputRef) -> int:
        producer = ref.producer
        shape = (
            self._shapes.get(ref.tensor)
            if producer is None
            else self._ops[producer.op].outputs[producer.port].shape
        )
        return _size(shape)

    def _axis(self, op: Op) -> int:
        """The axis of output channels: ONNX has them first in weights of Conv and turned ones."""
        turned = op.attrs.get("transB") == 1
        return 0 if turned or (self._first and "Conv" in op.type) else -1


def _size(shape: Shape | None) -> int:
    """How many elements a tensor of *shape* has; 0 if it is not known."""
    sizes = () if shape is None else tuple(size for size in shape if size is not None)
    return 0 if shape is None or len(sizes) != len(shape) else math.prod(sizes)
