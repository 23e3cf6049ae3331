"""All edges of a graph as columns of numbers, found in one pass over its ops."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.arrays import Int32
from graphstore.model import EdgeKind, ModelGraph, Op

_STEP = 50_000
"""Ops whose edges are kept as Python values at once."""

_Small: TypeAlias = NDArray[np.integer[Any]]
_Part: TypeAlias = tuple[Int32, Int32, _Small, _Small]


@dataclass(frozen=True)
class EdgeColumns:
    """The edges with both ends in the graph; ops by their place in the file.

    Edge i of the first ``data`` carries data into an op, the rest enter or leave a body;
    ``own_names`` holds, by edge, the name of the tensor where it is not that of the output
    it comes from. ``outside`` counts the data and control edges that come from no op of
    the graph, which are in no column.
    """

    sources: Int32
    targets: Int32
    outputs: _Small
    inputs: _Small
    data: int
    own_names: Mapping[int, str]
    control_sources: Int32
    control_targets: Int32
    outside: int

    @property
    def own(self) -> int:
        """How many edges the file itself has: data and control, not calls."""
        return self.data + len(self.control_sources) + self.outside


_NONE = np.empty(0, dtype=np.int32)
NO_EDGES = EdgeColumns(_NONE, _NONE, _NONE, _NONE, 0, {}, _NONE, _NONE, 0)


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
    own_names: dict[int, str] = {}
    parts: list[_Part] = []
    outside = data = 0
    for first in range(0, len(ops), _STEP):
        part = _data_edges(ops, first, place, own_names, data)
        parts.append(part[:4])
        data += len(part[0])
        outside += part[4]
    parts.append(_call_edges(graph, place, own_names, data))
    sources, targets, outputs, inputs = map(np.concatenate, zip(*parts, strict=True))
    control_sources, control_targets, loose = _control_edges(ops, place)
    return EdgeColumns(
        sources,
        targets,
        outputs,
        inputs,
        data,
        own_names,
        control_sources,
        control_targets,
        outside + loose,
    )


def _data_edges(
    ops: Sequence[Op], first: int, place: Mapping[str, int], own_names: dict[int, str], known: int
) -> tuple[Int32, Int32, _Small, _Small, int]:
    """The columns of the data edges into up to _STEP ops from *first* on, *known* before them,
    and how many edges come from no op of the graph."""
    sources: list[int] = []
    targets: list[int] = []
    outputs: list[int] = []
    inputs: list[int] = []
    outside = 0
    find = place.get
    for target, op in enumerate(ops[first : first + _STEP], start=first):
        for position, ref in enumerate(op.inputs):
            if ref is None:
                continue
            producer = ref.producer
            if producer is None:
                continue
            source = find(producer.op)
            if source is None:
                outside += 1
                continue
            port = producer.port
            made = ops[source].outputs
            if not (0 <= port < len(made) and made[port].name == ref.tensor):
                own_names[known + len(sources)] = ref.tensor
            sources.append(source)
            targets.append(target)
            outputs.append(port)
            inputs.append(position)
    return _numbers(sources), _numbers(targets), _small(outputs), _small(inputs), outside


def _call_edges(
    graph: ModelGraph, place: Mapping[str, int], own_names: dict[int, str], known: int
) -> _Part:
    sources: list[int] = []
    targets: list[int] = []
    outputs: list[int] = []
    inputs: list[int] = []
    for edge in graph.calls():
        begin, end = place.get(edge.source), place.get(edge.target)
        if begin is None or end is None:
            continue
        made = graph.ops[begin].outputs
        port = edge.source_port
        if not (0 <= port < len(made) and made[port].name == edge.tensor):
            own_names[known + len(sources)] = edge.tensor
        sources.append(begin)
        targets.append(end)
        outputs.append(port)
        inputs.append(edge.target_port)
    return _numbers(sources), _numbers(targets), _small(outputs), _small(inputs)


def _control_edges(ops: Sequence[Op], place: Mapping[str, int]) -> tuple[Int32, Int32, int]:
    """(sources, targets, how many come from no op of the graph)."""
    sources, targets = array("i"), array("i")
    outside = 0
    for target, op in enumerate(ops):
        for name in op.control_inputs:
            source = place.get(name)
            if source is None:
                outside += 1
                continue
            sources.append(source)
            targets.append(target)
    return _numbers(sources), _numbers(targets), outside


def edge_kinds(columns: EdgeColumns) -> NDArray[np.object_]:
    """The kind of each edge in ``sources``, as text."""
    kinds = np.full(len(columns.sources), EdgeKind.CALL.value, dtype=object)
    kinds[: columns.data] = EdgeKind.DATA.value
    return kinds


def _small(values: Sequence[int]) -> _Small:
    """The numbers in as few bytes as they need."""
    numbers = np.asarray(values, dtype=np.int64)
    ends = np.iinfo(np.int16)
    fits = not len(numbers) or (numbers.min() >= ends.min and numbers.max() <= ends.max)
    return numbers.astype(np.int16) if fits else numbers


def _numbers(values: Sequence[int] | array[int]) -> Int32:
    return np.asarray(values, dtype=np.int32)
