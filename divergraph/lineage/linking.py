"""Link a device graph to the golden graph: fused, split, inserted and renamed ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.lineage.golden_tensors import GoldenTensors
from divergraph.lineage.origin_attributes import link_by_attributes
from divergraph.lineage.tensor_names import link_by_tensor_names
from divergraph.lineage.unmatched import Unmatched
from graphstore.model import (
    Framework,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    TensorMatch,
    TensorRef,
)

__all__ = ["Lineage", "Unmatched", "link_graphs"]

_VALUE_KEEPING = frozenset({"Cast", "TransData"})
"""Inserted ops of these types pass a value on unchanged but for type and layout."""


@dataclass(frozen=True)
class Lineage:
    """How a device graph came out of a golden one.

    ``outputs`` has an entry for every output of every device op: the golden tensor it
    should equal, or why there is none.
    """

    links: tuple[LineageLink, ...]
    outputs: Mapping[TensorRef, TensorMatch | Unmatched]
    golden: GoldenTensors
    device_ops: Mapping[str, Op]

    def input_match(self, op: Op, position: int) -> TensorMatch | Unmatched | None:
        """The golden tensor that input *position* of a device op should equal.

        That is the producer's golden tensor, stepping back through inserted Cast and
        TransData ops. None if the input is not connected or is no op's output.
        """
        ref = op.inputs[position] if position < len(op.inputs) else None
        stepped = False
        seen: set[str] = set()
        while ref is not None and ref.producer is not None:
            source = ref.producer
            producer = self.device_ops.get(source.op)
            if producer is None or producer.id in seen:
                return None
            seen.add(producer.id)
            if producer.type in _VALUE_KEEPING and producer.is_inserted and producer.inputs:
                ref, stepped = producer.inputs[0], True
                continue
            return self._as_input(TensorRef(op.id, position), source, stepped=stepped)
        return None

    def _as_input(
        self, target: TensorRef, source: TensorRef, *, stepped: bool
    ) -> TensorMatch | Unmatched | None:
        match = self.outputs.get(source)
        if not isinstance(match, TensorMatch):
            return match
        rule = LineageRule.THROUGH_INSERTED if stepped else match.rule
        return TensorMatch(target, match.golden, rule)


def link_graphs(golden: ModelGraph, device: ModelGraph) -> Lineage:
    """Link every op and output of *device* to *golden*.

    Ascend graphs carry the links in attributes; between other graphs the tensor names
    that survive optimisation and fusion are the evidence.
    """
    index = GoldenTensors.of(golden)
    if device.framework is Framework.ASCEND:
        links, outputs = link_by_attributes(index, device)
    else:
        links, outputs = link_by_tensor_names(index, device)
    return Lineage(tuple(links), outputs, index, device.op_index())
