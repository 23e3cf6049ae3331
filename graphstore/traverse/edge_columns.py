"""All edges of a graph as columns of numbers, found in one pass over its ops."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import ne
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.model import ModelGraph, Op
from graphstore.traverse.arrays import Int32, distinct

_STEP = 4096
"""Ops whose edges are Python values at once: so few that they stay in the processor's cache."""
_OUTSIDE, _NOTHING = -1, -2
"""In place of a producer that is no op of the graph; of one that is not there."""

_Small: TypeAlias = NDArray[np.integer[Any]]
_Part: TypeAlias = tuple[Int32, Int32, _Small, _Small]


@dataclass(frozen=True, kw_only=True)
class EdgeEnds:
    """The ends of the edges with both ends in the graph; ops by their place in the file."""

    sources: Int32
    targets: Int32
    control_sources: Int32
    control_targets: Int32


@dataclass(frozen=True, kw_only=True)
class EdgeColumns(EdgeEnds):
    """All that is said of these edges.

    Edge i of the first ``data`` carries data into an op, the rest enter or leave a body;
    ``own_names`` holds, by edge, the name of the tensor where it is not that of the output
    it comes from. ``outside`` counts the data and control edges that come from no op of
    the graph, which are in no column; ``unfed`` are the ops with an input that no op of the graph
    feeds.
    """

    outputs: _Small
    inputs: _Small
    data: int
    own_names: Mapping[int, str]
    outside: int
    unfed: Int32

    @property
    def own(self) -> int:
        """How many edges the file itself has: data and control, not calls."""
        return self.data + len(self.control_sources) + self.outside


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
    first_names = [op.outputs[0].name if op.outputs else None for op in ops]
    steps: list[_Step] = []
    data = 0
    for first in range(0, len(ops), _STEP):
        step = _data_edges(ops, first, place, first_names)
        own_names.update((data + edge, name) for edge, name in step.own_names)
        steps.append(step)
        data += len(step.columns[0])
    del first_names
    parts = [*(step.columns for step in steps), _call_edges(graph, place, own_names, data)]
    sources, targets, outputs, inputs = map(np.concatenate, zip(*parts, strict=True))
    control_sources, control_targets, loose = _control_edges(ops, place)
    return EdgeColumns(
        sources=sources,
        targets=targets,
        control_sources=control_sources,
        control_targets=control_targets,
        outputs=outputs,
        inputs=inputs,
        data=data,
        own_names=own_names,
        outside=sum(step.outside for step in steps) + loose,
        unfed=np.concatenate((_numbers(()), *(step.unfed for step in steps))),
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """Data edges into some ops, with what :class:`EdgeColumns` says of them."""

    columns: _Part
    own_names: Sequence[tuple[int, str]]
    outside: int
    unfed: Int32


def _data_edges(
    ops: Sequence[Op], first: int, place: Mapping[str, int], first_names: Sequence[str | None]
) -> _Step:
    """The data edges into up to _STEP ops from *first* on, column by column: an edge after
    the other takes twice the time. *first_names* are those of the first outputs."""
    inputs = [op.inputs for op in ops[first : first + _STEP]]
    refs: list[Any] = list(chain.from_iterable(inputs))
    counts = np.fromiter(map(len, inputs), np.int32, len(inputs))
    targets = np.repeat(np.arange(first, first + len(inputs), dtype=np.int32), counts)
    begin = np.repeat(np.cumsum(counts, dtype=np.int32) - counts, counts)
    positions = np.arange(len(refs), dtype=np.int32) - begin
    producers: list[Any] = [None if ref is None else ref.producer for ref in refs]
    find = place.get
    source_numbers = _numbers(
        [_NOTHING if one is None else find(one.op, _OUTSIDE) for one in producers]
    )
    fed = source_numbers >= 0
    unfed = distinct(targets[~fed])
    outside = int(np.count_nonzero(source_numbers == _OUTSIDE))
    if not fed.all():
        refs, producers = list(compress(refs, fed)), list(compress(producers, fed))
        source_numbers, targets, positions = source_numbers[fed], targets[fed], positions[fed]
    outputs = _small([one.port for one in producers])
    names: list[str] = [ref.tensor for ref in refs]
    sources = source_numbers.tolist()
    other = np.fromiter(map(ne, names, map(first_names.__getitem__, sources)), bool, len(names))
    own_names = [
        (edge, names[edge])
        for edge in np.flatnonzero(other | (outputs != 0)).tolist()
        if not _is_named(ops[sources[edge]], producers[edge].port, names[edge])
    ]
    return _Step((source_numbers, targets, outputs, _small(positions)), own_names, outside, unfed)


def _is_named(op: Op, port: int, name: str) -> bool:
    """True if *op* has that output, under that name."""
    return 0 <= port < len(op.outputs) and op.outputs[port].name == name


def _call_edges(
    graph: ModelGraph, place: Mapping[str, int], own_names: dict[int, str], first_free: int
) -> _Part:
    sources: list[int] = []
    targets: list[int] = []
    outputs: list[int] = []
    inputs: list[int] = []
    for edge in graph.calls():
        begin, end = place.get(edge.source), place.get(edge.target)
        if begin is None or end is None:
            continue
        port = edge.source_port
        if not _is_named(graph.ops[begin], port, edge.tensor):
            own_names[first_free + len(sources)] = edge.tensor
        sources.append(begin)
        targets.append(end)
        outputs.append(port)
        inputs.append(edge.target_port)
    return _numbers(sources), _numbers(targets), _small(outputs), _small(inputs)


def _control_edges(ops: Sequence[Op], place: Mapping[str, int]) -> tuple[Int32, Int32, int]:
    """(sources, targets, how many come from no op of the graph)."""
    sources, targets = array("i"), array("i")
    outside = 0
    controlled = [(target, op.control_inputs) for target, op in enumerate(ops) if op.control_inputs]
    for target, names in controlled:
        for name in names:
            source = place.get(name)
            if source is None:
                outside += 1
                continue
            sources.append(source)
            targets.append(target)
    return _numbers(sources), _numbers(targets), outside


def _small(values: Sequence[int] | Int32) -> _Small:
    """The numbers in as few bytes as they need."""
    numbers = np.asarray(values, dtype=np.int64)
    ends = np.iinfo(np.int16)
    fits = not len(numbers) or (numbers.min() >= ends.min and numbers.max() <= ends.max)
    return numbers.astype(np.int16) if fits else numbers


def _numbers(values: Sequence[int] | array[int]) -> Int32:
    return np.asarray(values, dtype=np.int32)
