"""All edges of a graph as columns of numbers, found in one pass over its ops."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphstore.arrays import Int32
from graphstore.model import EdgeKind, ModelGraph


@dataclass(frozen=True)
class EdgeColumns:
    """The edges with both ends in the graph; ops by their place in the file.

    Edge i of the first ``data`` carries data into an op, the rest enter or leave a body;
    ``own_names`` holds, by edge, the name of the tensor where it is not that of the output
    it comes from. ``all_edges`` counts those with one end missing, too, but no calls.
    """

    place: Mapping[str, int]
    sources: Int32
    targets: Int32
    outputs: NDArray[np.int64]
    inputs: NDArray[np.int64]
    data: int
    own_names: Mapping[int, str]
    control_sources: Int32
    control_targets: Int32
    all_edges: int


def edge_columns(graph: ModelGraph) -> EdgeColumns:
    """The edges of *graph*: data in op order, then calls; control edges in op order.

    Raises:
        ValueError: two ops have one id.
    """
    ops = graph.ops
    place = {op.id: number for number, op in enumerate(ops)}
    if len(place) != len(ops):
        raise ValueError(f"graph {graph.name!r}: two ops have the same id")
    sources, targets, outputs, inputs = array("i"), array("i"), array("q"), array("q")
    control_sources, control_targets = array("i"), array("i")
    own_names: dict[int, str] = {}
    dangling = 0
    for target, op in enumerate(ops):
        for position, ref in enumerate(op.inputs):
            if ref is None or ref.producer is None:
                continue
            producer = ref.producer
            source = place.get(producer.op)
            if source is None:
                dangling += 1
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
                dangling += 1
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
        place,
        _numbers(sources),
        _numbers(targets),
        np.asarray(outputs, dtype=np.int64),
        np.asarray(inputs, dtype=np.int64),
        data,
        own_names,
        _numbers(control_sources),
        _numbers(control_targets),
        data + len(control_sources) + dangling,
    )


def edge_kinds(columns: EdgeColumns) -> NDArray[np.object_]:
    """The kind of each edge in ``sources``, as text."""
    kinds = np.full(len(columns.sources), EdgeKind.CALL.value, dtype=object)
    kinds[: columns.data] = EdgeKind.DATA.value
    return kinds


def _numbers(values: array[int]) -> Int32:
    return np.asarray(values, dtype=np.int32)
