"""Outputs of another shape than golden's: as far over every limit as can be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod

from divergraph.thresholds.verdicts import OTHER_SHAPE, count
from divergraph.values.tensor_pair import TensorPair
from graphstore.contract import RunData
from graphstore.model import Comparison, Level, Metric, TensorIO, TensorRef


def is_reshaped(pair: TensorPair) -> bool:
    """Whether the device dumped as many elements as golden, but along axes of other sizes, which
    neither flattening nor another order of the axes gives."""
    device, golden = pair.device.shape, pair.golden.shape
    if device is None or golden is None or pair.device.layout or pair.reorder:
        return False
    here, there = sorted(without_ones(device)), sorted(without_ones(golden))
    return len(here) == len(there) and here != there and prod(here) == prod(there)


def without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """*shape* without axes of one slice: dumps are often written without them."""
    return tuple(size for size in shape if size != 1)


def with_shapes_measured(data: RunData, outputs: Collection[TensorRef]) -> RunData:
    """*data* with *outputs*, which have another shape than golden's, as far over every limit as
    can be: they are wrong, not "not compared"."""
    if not outputs:
        return data
    comparisons = tuple(_measured(data.comparisons, outputs))
    counts = count(data.run.counts.ops, comparisons)
    return replace(data, comparisons=comparisons, run=replace(data.run, counts=counts))


def _measured(
    comparisons: Collection[Comparison], outputs: Collection[TensorRef]
) -> Iterator[Comparison]:
    for item in comparisons:
        if item.io is TensorIO.OUTPUT and TensorRef(item.op, item.port) in outputs:
            yield replace(
                item,
                metrics=OTHER_SHAPE,
                level=Level.FAIL,
                failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,),
                reason=None,
            )
        else:
            yield item
