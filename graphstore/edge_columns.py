"""All edges of a graph as columns of numbers, found in one pass over its ops."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.arrays import Int32
from graphstore.model import EdgeKind, ModelGraph


@dataclass(frozen=True)
class EdgeColumns:
    """The edges with both ends in the graph; ops by their place in the file.

    Edge i of the first ``data`` carries data into an op, the rest enter or leave a body;
    ``own_names`` holds, by edge, the name of the tensor where it is not that of the output
    it comes from.
    """

    sources: Int32
    targets: Int32
    outputs: NDArray[np.integer[Any]]
    inputs: NDArray[np.integer[Any]]
    data: int
    own_names: Mapping[int, str]
    control_sources: Int32
    control_targets: Int32


def places(graph: ModelGraph) -> dict[str, int]:
    """The place of each op in the file.

    Raises:
        ValueError: two ops have one id.
    """
    place = {op.id: number for number, op in enumerate(graph.ops)}
    if len(place) != len(graph.ops):
        raise ValueError(f"graph {graph.name!r}: two ops have the same id")
    return place


def edge_columns(graph: ModelGraph, place: Mapping[str, int]) -> EdgeColumns:
    """The edges of *graph*: data in op order, then calls; control edges in op order.

    *place* is that of :func:`places`.
    """
    ops = graph.ops
    sources, targets, outputs, inputs = array("i"), array("i"), array("q"), array("q")
    control_sources, control_targets = array("i"), array("i")
    own_names: dict[int, str] = {}
    for target, op in enumerate(ops):
        for position, ref in enumerate(op.inputs):
            if ref is None or ref.producer is None:
                continue
            producer = ref.producer
            source = place.get(producer.op)
            if source is None:
                continue
            port = producer.port
            made = ops[source].outputs
            if not (0 <= port < len(made) and made[port].name == ref.tensor):
                own_names[len(sources)] = ref.tensor
            sources.append(source)
            targets.append(target)
            outputs.append(port)
            inputs.append(position)
        for name in op.control_inputs:
            source = place.get(name)
            if source is None:
                continue
            control_sources.append(source)
            control_targets.append(target)
    data = len(sources)
    for edge in graph.calls():
        begin, end = place.get(edge.source), place.get(edge.target)
        if begin is None or end is None:
            continue
        made = ops[begin].outputs
        port = edge.source_port
        if not (0 <= port < len(made) and made[port].name == edge.tensor):
            own_names[len(sources)] = edge.tensor
        sources.append(begin)
        targets.append(end)
        outputs.append(port)
        inputs.append(edge.target_port)
    return EdgeColumns(
        _numbers(sources),
        _numbers(targets),
        _small(outputs),
        _small(inputs),
        data,
        own_names,
        _numbers(control_sources),
        _numbers(control_targets),
    )


def edge_kinds(columns: EdgeColumns) -> NDArray[np.object_]:
    """The kind of each edge in ``sources``, as text."""
    kinds = np.full(len(columns.sources), EdgeKind.CALL.value, dtype=object)
    kinds[: columns.data] = EdgeKind.DATA.value
    return kinds


def _small(values: array[int]) -> NDArray[np.integer[Any]]:
    """The numbers in as few bytes as they need."""
    numbers = np.asarray(values, dtype=np.int64)
    ends = np.iinfo(np.int16)
    fits = not len(numbers) or (numbers.min() >= ends.min and numbers.max() <= ends.max)
    return numbers.astype(np.int16) if fits else numbers


def _numbers(values: array[int]) -> Int32:
    return np.asarray(values, dtype=np.int32)
