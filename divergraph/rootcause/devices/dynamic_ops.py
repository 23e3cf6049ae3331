"""Which golden ops a device computes with dynamic quantisation, and how it holds their weights.

In ONNX a ``DynamicQuantizeLinear`` feeds a product of integers; in TensorFlow Lite an operator has
floats around it and a weight in integers with a scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.families import is_one_product
from divergraph.rootcause.devices.held_weights.held_integers import GoldenWeights, WeightQuantiser
from divergraph.rootcause.devices.quantisers import RANGES, Constant, Quantiser, Quantisers
from graphstore.contract import RunData
from graphstore.model import Comparison, DType, Op, TensorIO, TensorRef
from graphstore.traverse.reach import reached

_QUANTISER = "DynamicQuantizeLinear"
_PRODUCTS: Mapping[str, tuple[int, int]] = {
    "MatMulInteger": (-1, 3),
    "ConvInteger": (-1, 3),
    "MatMulIntegerToFloat": (3, 5),
    "DynamicQuantizeMatMul": (2, 3),
}
"""Products of integers, and where they take the weight's scale (-1: an op behind has it) and zero
point."""
_BEHIND = frozenset({"Cast", "Mul", "Add", "Reshape", "Squeeze", "Unsqueeze", "Transpose"})
"""Ops that make floats of a product of integers."""
_WEIGHT = 1


def with_dynamic(
    static: Quantisers, data: RunData, comparisons: Iterable[Comparison], constant: Constant
) -> Quantisers:
    """*static*, with what the device's graph multiplies in integers behind quantisers that take
    their scales from the values; *constant* gives the constants of the device's model."""
    if not any(op.type in _PRODUCTS for op in data.device.ops):
        return static
    products = _Products(data, comparisons, constant)
    by_tensor, readers = dict(static.by_tensor), dict(static.readers)
    dynamic, within = set(static.dynamic), set(static.dynamic_ops)
    for op in data.device.ops:
        quantisers = products.quantisers_of(op)
        reading = None if quantisers is None else products.read_by(op)
        if reading is None:
            continue
        name, reader, axis = reading
        by_tensor[name] = products.weight(op, axis)
        readers[name] = readers.get(name, frozenset()) | {reader}
        dynamic.add(reader)
        within.update((op.id, *(quantisers or ())))
    return replace(
        static,
        by_tensor=by_tensor,
        readers=readers,
        dynamic=frozenset(dynamic),
        dynamic_ops=frozenset(within),
    )


class _Products:
    """The products of integers of a device, with what is around them."""

    def __init__(
        self, data: RunData, comparisons: Iterable[Comparison], constant: Constant
    ) -> None:
        golden = data.golden.op_index()
        self._golden = golden
        self._ops = data.device.op_index()
        self._constant = constant
        self._matches = {
            TensorRef(item.op, item.port): item.golden
            for item in comparisons
            if item.io is TensorIO.OUTPUT and item.golden is not None and item.golden.op in golden
        }
        self._weights = GoldenWeights(data, frozenset(self._matches.values()))
        self._users: dict[TensorRef, list[Op]] = {}
        for op in data.device.ops:
            for ref in op.inputs:
                if ref is not None and ref.producer is not None:
                    self._users.setdefault(ref.producer, []).append(op)

    def quantisers_of(self, op: Op) -> tuple[str, ...] | None:
        """The ops that quantise what a product is given; None where no op does so dynamically."""
        if op.type not in _PRODUCTS or not op.inputs:
            return None
        if op.type.startswith("DynamicQuantize"):
            return ()
        producers = (ref.producer for ref in op.inputs[: _WEIGHT + 1] if ref is not None)
        makers = [self._ops[producer.op] for producer in producers if producer is not None]
        makers = [maker for maker in makers if maker.type != "Constant"]
        # A weight that is held in floats until the model runs has a quantiser of its own.
        if not makers or {maker.type for maker in makers} != {_QUANTISER}:
            return None
        return tuple(maker.id for maker in makers)

    def read_by(self, op: Op) -> tuple[str, str, int] | None:
        """The golden weight that a product holds in integers: its name, the golden op that reads
        it, and its axis of output channels. None where that is not one product of floats."""
        weight = self._value(op, _WEIGHT)
        if weight is None:
            return None
        starts = [ref for ref in self._made_of(TensorRef(op.id, 0)) if ref in self._matches]
        for output in starts[:1]:
            candidates = list(self._weights.behind(self._matches[output], weight.size))
            fitting = [
                candidate for candidate in candidates if is_one_product(self._golden[candidate[1]])
            ]
            return fitting[0] if len(fitting) == len(candidates) == 1 else None
        return None

    def weight(self, op: Op, axis: int) -> Quantiser:
        """The quantiser of a product's weight, along *axis* of golden's."""
        weight, zero = self._value(op, _WEIGHT), self._value(op, _PRODUCTS[op.type][1])
        kind = DType.INT8 if weight is None else DType(weight.dtype.name)
        low, high = RANGES[kind]
        zero, scale = np.zeros(()) if zero is None else zero, self._scale(op)
        if scale is None:
            return WeightQuantiser(np.ones(()), zero, low, high, axis, slices=zero.size)
        return Quantiser(scale, np.broadcast_to(zero, scale.shape), low, high, axis)

    def _scale(self, op: Op) -> Array | None:
        """The scale of a product's weight: an operand, or what the scale of the values is
        multiplied by."""
        position = _PRODUCTS[op.type][0]
        if position >= 0:
            return self._value(op, position)
        maker = None if op.inputs[0] is None else op.inputs[0].producer
        if maker is None:
            return None
        reached_refs = set(self._made_of(TensorRef(op.id, 0)))
        for user in self._users.get(TensorRef(maker.op, 1), ()):
            after = self._users.get(TensorRef(user.id, 0), ())
            if user.type == "Mul" and any(
                TensorRef(later.id, 0) in reached_refs for later in after
            ):
                values = (self._value(user, place) for place in range(len(user.inputs)))
                return next((value for value in values if value is not None), None)
        return None

    def _made_of(self, output: TensorRef) -> list[TensorRef]:
        """*output* and what ops that make floats of integers make of it, the nearest first."""

        def further(ref: TensorRef) -> Iterator[TensorRef]:
            if ref in self._matches:
                return
            yield from (
                TensorRef(user.id, 0) for user in self._users.get(ref, ()) if user.type in _BEHIND
            )

        return list(reached([output], further))

    def _value(self, op: Op, position: int) -> Array | None:
        ref = op.inputs[position] if position < len(op.inputs) else None
        return None if ref is None else self._constant(ref.tensor)
