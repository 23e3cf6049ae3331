"""What a device reads quantised, for blame to emulate: by which op, with which scale. An error from
reading 8 bits belongs to the op that reads, as that is the op one can keep in higher precision. So
whatever lies between a tensor and that op is skipped, dumped quantised values included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from divergraph.blame.outputs import tensor_names
from divergraph.execute.contract import QuantisedRead
from divergraph.graphs.matching.constants import constant_ops
from divergraph.rootcause.devices.quantisers import (
    DEQUANTISING,
    NO_QUANTISERS,
    RANGES,
    Constant,
    Quantisers,
    find_quantisers,
)
from graphstore.contract import RunData
from graphstore.model import Comparison, DType, TensorIO

_SIGNED = {RANGES[DType.INT8]: True, RANGES[DType.UINT8]: False}


@dataclass(frozen=True, slots=True)
class Readings:
    """What golden ops read in 8 bits on the device; ``quantisers`` holds only these. ``makers``
    gives by id of such an op its first output, by which executors know it."""

    quantisers: Quantisers
    of_ops: tuple[QuantisedRead, ...]
    makers: Mapping[str, str]


NO_READINGS = Readings(NO_QUANTISERS, (), {})


def find_readings(data: RunData, constant: Constant) -> Readings:
    """The quantised reads of known tensors, by known ops, with known scales.

    *constant* gives the device model's own constants.
    """
    quantisers = find_quantisers(data, data.comparisons, constant)
    golden = data.golden.op_index()
    of_ops: list[QuantisedRead] = []
    readers: dict[str, frozenset[str]] = {}
    for tensor in quantisers.by_tensor:
        ops = [golden[op_id] for op_id in sorted(quantisers.readers.get(tensor, ()))]
        # What a body reads is quantised inside it.
        for op in (op for op in ops if not (op.owns or op.subgraph)):
            quantiser = quantisers.reads(op.id, tensor)
            signed = None if quantiser is None else _SIGNED.get((quantiser.low, quantiser.high))
            if quantiser is None or signed is None or quantiser.block:
                continue
            readers[tensor] = readers.get(tensor, frozenset()) | {op.id}
            scale, zero, axis = quantiser.scale, quantiser.zero, quantiser.axis
            of_ops.append(QuantisedRead(op.outputs[0].name, tensor, scale, zero, signed, axis))
    by_tensor = {tensor: quantisers.by_tensor[tensor] for tensor in readers}
    copies = {
        (op_id, tensor): quantiser
        for (op_id, tensor), quantiser in quantisers.by_reader.items()
        if op_id in readers.get(tensor, ())
    }
    makers = {op_id: golden[op_id].outputs[0].name for ids in readers.values() for op_id in ids}
    return Readings(
        Quantisers(by_tensor, frozenset(), quantisers.unseen, readers, copies),
        tuple(of_ops),
        makers,
    )


def looked_through(data: RunData, readings: Readings) -> tuple[Comparison, ...]:
    """The comparisons without those that *readings* account for: outputs of a dequantiser whose
    input was dumped or is a constant."""
    through = readings.quantisers.by_tensor.keys()
    types = {op.id: op.type for op in data.device.ops}
    ends = {(ref.op, ref.port) for ref in data.device.outputs}
    names = tensor_names(data.golden)
    constants = constant_ops(data.golden)
    dumped = Counter(
        item.golden for item in _outputs(data.comparisons) if types[item.op] not in DEQUANTISING
    )

    def hidden(item: Comparison) -> bool:
        if item.io is not TensorIO.OUTPUT or item.golden is None:
            return False
        return (
            types[item.op] in DEQUANTISING
            and (item.op, item.port) not in ends
            and names.get(str(item.golden)) in through
            and (dumped[item.golden] > 0 or item.golden.op in constants)
        )

    return tuple(item for item in data.comparisons if not hidden(item))


def _outputs(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    return (item for item in comparisons if item.io is TensorIO.OUTPUT and item.compared)
