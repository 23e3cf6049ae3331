"""What a device's graph says it quantises: which tensors, with which scales.

A device that computes in int8 keeps no more of a tensor than its scale allows. That loss belongs to
the noise floor of the op that quantises, and of the ops that compute with quantised weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from divergraph.execute.contract import Array
from divergraph.graphs.matching.constants import constant_ops
from divergraph.rootcause.devices.dynamic_scales import DynamicScale
from divergraph.rootcause.devices.held_weights.packed_weights import PACKED, block_scales
from graphstore.contract import RunData
from graphstore.model import Comparison, DType, InputRef, ModelGraph, Op, TensorIO, TensorRef
from graphstore.traverse.reach import reached

DEQUANTISING = frozenset({"DequantizeLinear"})
_QUANTISING = frozenset({"QuantizeLinear"})
_HANDING_ON = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Transpose"})
"""Ops that give the same values in another shape or order, so one scale holds on both sides."""
_MADE_OF: Mapping[str, tuple[str, ...]] = {"Gemm": ("MatMul",), "FusedMatMul": ("MatMul",)}
"""Fused ops, and the originals that have their weight at the same position."""
_ASCEND_QUANT = "AscendQuant"
_INTEGER = ("QLinear", "QAttention", "QGemm", "DynamicQuantize", "AscendDequant", _ASCEND_QUANT)
_OWNERS = frozenset({"If", "Loop", "Scan", "SequenceMap", "While", "StatelessWhile", "StatelessIf"})
RANGES = {
    DType.INT4: (-8, 7),
    DType.UINT4: (0, 15),
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.UINT16: (0, 65535),
    DType.INT32: (-(1 << 31), (1 << 31) - 1),
}

Constant = Callable[[str], "Array | None"]
"""Gives a constant of the device's model by its name; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Quantiser:
    """Rounds to ``scale`` * (q - ``zero``) with an integer q from ``low`` to ``high``.

    Several scales run along ``axis``, one for each slice, or one for each ``block`` of slices.
    """

    scale: Array
    zero: Array
    low: int
    high: int
    axis: int = 1
    block: int = 0

    def __call__(self, value: Array, moved: float = 0.0) -> Array:
        """*value* (float) quantised and dequantised, in its dtype, after it was *moved* by so many
        units of the last place of its whole range in float32, as formulas that divide by the range
        do. A bias in 32 bits uses little of its type's range, so its own is what counts."""
        scale, zero = self._shaped(self.scale, value), self._shaped(self.zero, value)
        # Divided in the dtype of the value, as on the device: it decides which way a tie goes.
        scale = scale.astype(value.dtype, copy=False)
        with np.errstate(all="ignore"):
            steps = value / scale
            if moved and value.size:
                steps += value.dtype.type(moved * 2.0**-24 * self._reach(steps))
            steps = np.clip(np.rint(steps) + zero, self.low, self.high)
            quantised: Array = np.asarray((steps - zero) * scale, value.dtype)
        return quantised

    def rounds_as(self, other: Quantiser) -> bool:
        """Whether the two give the same of every value."""
        parts = ((one.scale, one.zero, one.low, one.high) for one in (self, other))
        same = all(map(np.array_equal, *parts))
        return same and (self.axis, self.block) == (other.axis, other.block)

    def _reach(self, steps: Array) -> float:
        """How many steps the values span around 0, at most those of the type."""
        largest = float(np.max(np.abs(steps), initial=0.0, where=np.isfinite(steps)))
        return min(2.0 * largest, self.high - self.low)

    def _shaped(self, parameter: Array, value: Array) -> Array:
        plain: Array = np.asarray(parameter, np.float64).reshape(-1)
        if plain.size == 1 or value.ndim == 0:
            return plain[:1].reshape(())
        axis = self.axis % value.ndim
        if self.block and parameter.ndim == value.ndim:
            wide = np.repeat(np.asarray(parameter, np.float64), self.block, axis)
            wide = wide[tuple(slice(length) for length in value.shape)]
            return wide if wide.shape == value.shape else np.asarray(plain.max())
        if value.shape[axis] != plain.size:
            return np.asarray(plain.max())
        return plain.reshape([-1 if place == axis else 1 for place in range(value.ndim)])


@dataclass(frozen=True, slots=True)
class Quantisers:
    """What a device quantises.

    ``by_tensor`` has the quantiser of golden tensors and weights by name. ``outputs`` are device
    outputs that come from a dequantiser. ``unseen`` are device ops that dequantise with an unknown
    scale, or something that stands for no golden tensor. ``readers`` gives for a golden tensor the
    golden ops that read it quantised; all others read it unquantised. For tensors not in it the
    readers are not known; ``by_reader`` has the quantisers of golden ops whose device reads a copy
    of the tensor with another scale, as a bias has that two convolutions share. ``held`` are device
    outputs in integers with a scale of their own.
    ``makers`` has the quantiser of each of ``outputs`` that has a known one: a tensor that is only
    handed on may be quantised again on its way, with another scale. ``dynamic`` are golden ops
    whose input the device quantises with scales of its values, by ``dynamic_ops`` of the device;
    ``scales`` says how, where it is known.
    """

    by_tensor: Mapping[str, Quantiser]
    outputs: frozenset[TensorRef]
    unseen: frozenset[str] = frozenset()
    readers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    by_reader: Mapping[tuple[str, str], Quantiser] = field(default_factory=dict)
    held: Mapping[TensorRef, Quantiser] = field(default_factory=dict)
    makers: Mapping[TensorRef, Quantiser] = field(default_factory=dict)
    dynamic: frozenset[str] = frozenset()
    dynamic_ops: frozenset[str] = frozenset()
    scales: Mapping[str, DynamicScale] = field(default_factory=dict)
    attributes: Mapping[str, Quantiser] = field(default_factory=dict)
    """How numbers in attributes of golden ops are held, which became constants."""
    silent: bool = False
    """The device's graph says nothing of it, its outputs show it: so there may be more of it in
    what shows no products, such as bodies and recurrent layers."""

    @property
    def in_integers(self) -> bool:
        """Whether some of it is held in integers; weights may be held in float16 instead."""
        return any(quantiser.low < quantiser.high for quantiser in self.by_tensor.values())

    @property
    def only_weights(self) -> bool:
        """Whether weights are all the device quantises, so that all it computes with are floats."""
        others = (self.outputs, self.unseen, self.held, self.makers, self.dynamic_ops)
        return bool(self.by_tensor) and not any(others)

    def met_by(self, op: str) -> DynamicScale | None:
        """How the input of golden *op* is quantised with scales of its values; None if it is not,
        or nobody knows how."""
        return self.scales.get(op)

    def behind(self, output: TensorRef, tensor: str) -> Quantiser | None:
        """The quantiser that made device *output*, which stands for golden *tensor*."""
        quantiser = self.by_tensor.get(tensor) if output in self.outputs else None
        return self.held.get(output, self.makers.get(output, quantiser))

    def reads(self, op: str, tensor: str) -> Quantiser | None:
        """The quantiser through which golden *op* reads golden *tensor*; None without one."""
        quantiser, readers = self.by_tensor.get(tensor), self.readers.get(tensor)
        own = self.by_reader.get((op, tensor), quantiser)
        return own if readers is None or op in readers else None


NO_QUANTISERS = Quantisers({}, frozenset())


def computes_in_integers(kind: str) -> bool:
    """Whether an op of this type computes in integers with scales its graph need not tell."""
    return kind.startswith(_INTEGER) or "Integer" in kind


def hides_bodies(device: ModelGraph) -> bool:
    """Whether *device* may quantise in bodies: they say so, or its graph does not show them."""
    owners = {body.owner for body in device.subgraphs}
    return not owners or any(
        quantises(op.type) if op.subgraph else op.type in _OWNERS and op.id not in owners
        for op in device.ops
    )


def quantises(kind: str) -> bool:
    """Whether an op of this type quantises, dequantises or computes in integers."""
    return kind in DEQUANTISING or kind in _QUANTISING or computes_in_integers(kind)


def find_quantisers(
    data: RunData, comparisons: Iterable[Comparison], constant: Constant
) -> Quantisers:
    """The quantisers of the run's device; *constant* gives the constants of its model."""
    if not any(op.type in (*DEQUANTISING, _ASCEND_QUANT, PACKED) for op in data.device.ops):
        return NO_QUANTISERS
    return _Finder(data, comparisons, constant).found()


class _Finder:
    def __init__(
        self, data: RunData, comparisons: Iterable[Comparison], constant: Constant
    ) -> None:
        device, golden = data.device, data.golden
        self._device = device
        self._ops = device.op_index()
        self._golden = golden.op_index()
        self._owners = {body.name: body.owner for body in golden.subgraphs}
        self._entries = {tensor.name for tensor in golden.inputs}
        self._constants = constant_ops(golden)
        self._originals: dict[str, list[str]] = {}
        for link in data.links:
            self._originals.setdefault(link.device, []).append(link.original)
        self._matches = {
            TensorRef(item.op, item.port): item.golden
            for item in comparisons
            if item.io is TensorIO.OUTPUT and item.golden is not None
        }
        self._constant = constant
        self._golden_tensors = self._entries | {
            tensor.name for op in golden.ops for tensor in op.outputs
        }
        self._users: dict[TensorRef, list[tuple[Op, int]]] = {}
        for op in device.ops:
            for position, ref in enumerate(op.inputs):
                if ref is not None and ref.producer is not None:
                    self._users.setdefault(ref.producer, []).append((op, position))

    def found(self) -> Quantisers:
        by_tensor: dict[str, Quantiser] = {}
        outputs: set[TensorRef] = set()
        makers: dict[TensorRef, Quantiser] = {}
        unseen: set[str] = set()
        readers: dict[str, set[str]] = {}
        by_reader: dict[tuple[str, str], Quantiser] = {}
        for op in self._device.ops:
            names: list[str] = []
            read: list[tuple[str, str]] = []
            if op.type in DEQUANTISING:
                refs = [TensorRef(op.id, 0)]
                quantiser = self._of_dequantiser(op)
                if quantiser is not None:
                    handed_on = self._handed_on(op) if quantiser.scale.size == 1 else []
                    names = [*self._names(op, quantiser), *self._golden_names(handed_on)]
                    refs += handed_on
                    read = list(self._read_by(refs, names))
                outputs.update(refs)
                makers.update(dict.fromkeys(refs, quantiser) if quantiser is not None else {})
                # A bias in 32 bits loses next to nothing, so an unknown one widens no floor.
                lossless = quantiser is not None and quantiser.high >= RANGES[DType.INT32][1]
                unseen |= set() if names or lossless else {op.id}
            elif op.type == PACKED:
                quantiser, read = self._of_packed(op), list(self._packed(op))
                names = [name for name, _ in read]
                unseen |= set() if quantiser is not None and read else {op.id}
            elif op.type == _ASCEND_QUANT:
                quantiser, names = _of_ascend(op), list(self._behind(op))
            else:
                continue
            for name in names if read else ():
                ops = (reader for tensor, reader in read if tensor == name)
                readers.setdefault(name, set()).update(ops)
            if quantiser is not None:
                # Each reader of a copy keeps its scale, whichever of them the tensor goes by.
                by_reader.update(((reader, name), quantiser) for name, reader in read)
                by_tensor.update(dict.fromkeys(names, quantiser))
        known_readers = {name: frozenset(ops) for name, ops in readers.items()}
        output_refs = frozenset(outputs)
        copies = {
            key: quantiser
            for key, quantiser in by_reader.items()
            if not quantiser.rounds_as(by_tensor[key[1]])
        }
        return Quantisers(
            by_tensor, output_refs, frozenset(unseen), known_readers, copies, makers=makers
        )

    def _of_dequantiser(self, op: Op) -> Quantiser | None:
        scale = self._value(op, 1)
        if scale is None:
            return None
        zero = self._value(op, 2)
        kind = self._kind(op, zero)
        low, high = RANGES.get(kind, RANGES[DType.INT8])
        axis, block = op.attrs.get("axis", 1), op.attrs.get("block_size", 0)
        plain = np.zeros_like(scale) if zero is None else zero
        axis = axis if isinstance(axis, int) else 1
        return Quantiser(scale, plain, low, high, axis, block if isinstance(block, int) else 0)

    def _of_packed(self, op: Op) -> Quantiser | None:
        scales = block_scales(op, self._value)
        if scales is None:
            return None
        scale, zero, block, bits = scales
        return Quantiser(scale, zero, 0, (1 << bits) - 1, 0, block)

    def _packed(self, op: Op) -> Iterator[tuple[str, str]]:
        """The golden weight that *op* holds packed, and the golden op that reads it."""
        for name in self._originals.get(op.id, ()):
            original = self._golden.get(name)
            if original is not None and original.type == "MatMul":
                weight = original.inputs[1]
                if weight is not None and self._is_constant(weight):
                    yield weight.tensor, name

    def _kind(self, op: Op, zero: Array | None) -> DType:
        if zero is not None and zero.dtype.kind in "iu":
            return DType(zero.dtype.name)
        producer = op.inputs[0].producer if op.inputs and op.inputs[0] is not None else None
        if producer is not None and producer.op in self._ops:
            stored = self._ops[producer.op].outputs[producer.port].dtype
            return stored or DType.INT8
        return DType.INT8

    def _value(self, op: Op, position: int) -> Array | None:
        ref = op.inputs[position] if position < len(op.inputs) else None
        return None if ref is None else self._constant(ref.tensor)

    def _names(self, op: Op, quantiser: Quantiser) -> Iterator[str]:
        """The golden tensors whose values *op* gives back."""
        yield from self._golden_names([TensorRef(op.id, 0)])
        source = op.inputs[0] if op.inputs else None
        maker = None if source is None or source.producer is None else source.producer.op
        if maker is not None and self._ops[maker].type in _QUANTISING:
            ref = self._ops[maker].inputs[0]
            while ref is not None:
                if ref.tensor in self._golden_tensors:
                    yield ref.tensor
                if ref.producer is None:  # an input of the model, or a constant of another name
                    yield from self._weights_for(TensorRef(op.id, 0))
                    return
                yield from self._golden_names([ref.producer])
                before = self._ops[ref.producer.op]
                if before.type not in _HANDING_ON or quantiser.scale.size != 1:
                    return
                ref = before.inputs[0] if before.inputs else None
        elif source is not None:
            yield from self._weights_for(TensorRef(op.id, 0))

    def _golden_names(self, outputs: Iterable[TensorRef]) -> Iterator[str]:
        """The golden tensors these device outputs stand for."""
        for output in outputs:
            match = self._matches.get(output)
            if match is not None and match.op in self._golden:
                yield self._golden[match.op].outputs[match.port].name

    def _read_by(
        self, outputs: Iterable[TensorRef], names: Iterable[str]
    ) -> Iterator[tuple[str, str]]:
        """The golden ops that read one of the golden tensors *names* where the device reads
        one of *outputs*, each with the tensor."""
        wanted = set(names)
        for output in outputs:
            for user, _ in self._users.get(output, ()):
                for name in self._originals.get(user.id, ()):
                    original = self._golden.get(name)
                    inputs = () if original is None else original.inputs
                    tensors = wanted & {ref.tensor for ref in inputs if ref is not None}
                    for op in (name, *self._around(original)):
                        yield from ((tensor, op) for tensor in tensors)

    def _around(self, op: Op | None) -> Iterator[str]:
        """The golden ops in whose bodies *op* is: they read what it takes from outside."""
        while op is not None and op.subgraph:
            op = self._golden.get(self._owners.get(op.subgraph, ""))
            if op is not None:
                yield op.id

    def _handed_on(self, op: Op) -> list[TensorRef]:
        """The outputs that hold what *op* gives back in another shape."""

        def handed_on(output: TensorRef) -> Iterator[TensorRef]:
            for user, position in self._users.get(output, ()):
                if user.type in _HANDING_ON and user.outputs and position == 0:
                    yield TensorRef(user.id, 0)

        return list(reached([TensorRef(op.id, 0)], handed_on))[1:]

    def _weights_for(self, output: TensorRef) -> Iterator[str]:
        """The golden constants in the places where a dequantised constant is read."""
        for user, position in self._users.get(output, ()):
            for name in self._originals.get(user.id, ()):
                original = self._golden.get(name)
                alike = (user.type, *_MADE_OF.get(user.type, ()))
                if original is None or original.type not in alike:
                    continue
                if position < len(original.inputs):
                    ref = original.inputs[position]
                    if ref is not None and self._is_constant(ref):
                        yield ref.tensor

    def _is_constant(self, ref: InputRef) -> bool:
        if ref.producer is None:
            return ref.tensor not in self._entries
        return ref.producer.op in self._constants

    def _behind(self, op: Op) -> Iterator[str]:
        """The golden tensor an AscendQuant takes."""
        for ref in op.inputs[:1]:
            match = None if ref is None or ref.producer is None else self._matches.get(ref.producer)
            if match is not None and match.op in self._golden:
                yield self._golden[match.op].outputs[match.port].name


def _of_ascend(op: Op) -> Quantiser | None:
    """AscendQuant: q = round(x * scale + offset), in int8."""
    scale, offset = op.attrs.get("scale"), op.attrs.get("offset", 0.0)
    if not isinstance(scale, int | float) or not isinstance(offset, int | float) or scale == 0:
        return None
    return Quantiser(np.array([1.0 / scale]), np.array([float(offset)]), *RANGES[DType.INT8])
