"""The order of axes of tensors that names match between graphs of two frameworks.

TensorFlow mostly computes NHWC, ONNX and Caffe NCHW, and converters keep the names. Where equal
sizes leave the order open, the values decide; where these are wrong, too, the nearest device ops
whose order is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from divergraph.graphs.lineage import Lineage
from divergraph.graphs.lineage.golden_tensors import Outputs
from divergraph.values.closeness import best_reorder, distance, only_order
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.orders import reordered
from graphstore.model import LineageRule, ModelGraph, Op, Reorder, TensorMatch, TensorRef

_BY_NAME = frozenset(
    {
        *(LineageRule.SAME_TENSOR, LineageRule.SAME_NAME),
        *(LineageRule.THROUGH_INSERTED, LineageRule.BETWEEN_TENSORS),
        LineageRule.ORIGIN_OUTPUT,
    }
)
_MOVING = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_SAME = 0.02
"""Relative distance up to which values are taken for the same."""

_Order = tuple[int, ...]


def with_axis_orders(
    lineage: Lineage, device: ModelGraph, device_values: DumpedValues, golden_values: DumpedValues
) -> dict[TensorRef, TensorMatch]:
    """The matches by name whose device values have to be reordered, with their order."""
    if lineage.golden.graph.framework is device.framework:
        return dict(_where_shapes_differ(lineage, device_values, golden_values))
    orders = _Orders(lineage.outputs, device, device_values, golden_values)
    return {
        ref: replace(match, reorder=Reorder(axes=axes))
        for ref, match, axes in orders.found()
        if axes != tuple(range(len(axes)))
    }


def _where_shapes_differ(
    lineage: Lineage, device_values: DumpedValues, golden_values: DumpedValues
) -> Iterator[tuple[TensorRef, TensorMatch]]:
    """Matches by name whose axes an optimiser swapped: it moves a Transpose past other ops."""
    for ref, match in lineage.outputs.items():
        if not isinstance(match, TensorMatch) or match.rule not in _BY_NAME:
            continue
        here, there = device_values.shape(ref), golden_values.shape(match.golden)
        if match.reorder is not None or here is None or there is None or here == there:
            continue
        if sorted(here) != sorted(there):
            continue
        device, golden = device_values.of(ref), golden_values.of(match.golden)
        if device is None or golden is None:
            continue
        best, as_it_lies = best_reorder(device, golden), distance(device, golden)
        order = best[0] if best is not None and best[1] < as_it_lies else None
        if best is None and as_it_lies > _SAME:
            order = only_order(device.shape, golden.shape)
        if order is not None:
            yield ref, replace(match, reorder=order)


class _Orders:
    def __init__(
        self,
        outputs: Outputs,
        device: ModelGraph,
        device_values: DumpedValues,
        golden_values: DumpedValues,
    ) -> None:
        self._device = device
        self._ops = device.op_index()
        self._device_values = device_values
        self._golden_values = golden_values
        self._matches = {
            ref: match
            for ref, match in outputs.items()
            if isinstance(match, TensorMatch) and match.rule in _BY_NAME and match.reorder is None
        }

    def found(self) -> Iterator[tuple[TensorRef, TensorMatch, _Order]]:
        """Each match that fits in several orders, with the one found."""
        choices = {
            ref: fitting
            for ref, match in self._matches.items()
            if len(fitting := self._fitting(match)) > 0
        }
        orders = {
            ref: order
            for ref, fitting in choices.items()
            if (order := self._told(self._matches[ref], fitting)) is not None
        }
        if len(orders) < len(choices):
            self._spread(orders, self._device.ops)
            self._spread(orders, reversed(self._device.ops), backward=True)
        for ref, fitting in choices.items():
            order = orders.get(ref)
            yield ref, self._matches[ref], order if order in fitting else fitting[0]

    def _fitting(self, match: TensorMatch) -> list[_Order]:
        """The orders in which the shapes fit, the present one first; empty if there is no
        choice."""
        device = self._device_values.shape(match.device)
        golden = self._golden_values.shape(match.golden)
        if device is None or golden is None or len(device) != len(golden):
            return []
        orders = (tuple(range(len(device))), *_moved(len(device)))
        fitting = [order for order in orders if tuple(device[axis] for axis in order) == golden]
        return [] if fitting[:1] == [orders[0]] and len(fitting) == 1 else fitting

    def _told(self, match: TensorMatch, fitting: list[_Order]) -> _Order | None:
        """The order that shapes or values show; None if they leave it open."""
        if len(fitting) == 1:
            return fitting[0]
        device = self._device_values.of(match.device)
        golden = self._golden_values.of(match.golden)
        if device is None or golden is None:
            return None
        closest_orders = [
            order
            for order in fitting
            if (moved := reordered(device, Reorder(axes=order), golden.shape)) is not None
            and distance(moved, golden) <= _SAME
        ]
        return closest_orders[0] if len(closest_orders) == 1 else None

    def _spread(
        self, orders: dict[TensorRef, _Order], ops: Iterable[Op], *, backward: bool = False
    ) -> None:
        """Propagate *orders* to the outputs (or inputs) of ops that do not move axes."""
        for op in ops:
            if op.type in _MOVING or not op.outputs:
                continue
            output = op.makes[0]
            for source_ref in op.takes:
                if self._ops[source_ref.op].type == "Const":
                    continue
                source, target = (output, source_ref) if backward else (source_ref, output)
                if source in orders:
                    orders.setdefault(target, orders[source])


def _moved(rank: int) -> tuple[_Order, ...]:
    """Channels from second to last place and back, for tensors of *rank* axes."""
    if rank < 3:
        return ()
    first, *space = range(rank)
    to_last = (first, *space[1:], space[0])
    to_second = (first, space[-1], *space[:-1])
    return (to_last,) if to_last == to_second else (to_last, to_second)
