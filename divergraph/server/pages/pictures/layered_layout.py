"""A layered drawing of a small graph (Sugiyama's method): sources above, long edges bent around
what lies between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

Edge: TypeAlias = tuple[int, int]
_SWEEPS = 8
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Drawing:
    """``places`` are the middle of each node, in columns (fractions are between two) and layers;
    ``routes`` the places that each edge goes through, its ends included."""

    places: Sequence[tuple[float, int]]
    routes: Mapping[Edge, Sequence[tuple[float, int]]]
    columns: float
    layers: int


@dataclass
class _Layers:
    """Nodes by layer; those with a number from ``real`` on stand for a bend of a long edge."""

    real: int
    rows: list[list[int]]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    chains: dict[Edge, list[int]] = field(default_factory=dict)


def layered(count: int, edges: Sequence[Edge]) -> Drawing:
    """A drawing of nodes 0 to *count*, numbered in execution order; an edge against it is drawn,
    but has no say in where nodes stand."""
    layers = _with_bends(_layer_of(count, edges), edges)
    for sweep in range(_SWEEPS):
        neighbours = layers.above if sweep % 2 == 0 else layers.below
        _reorder(layers.rows, neighbours)
    across = _columns(layers)
    layer = {node: at for at, row in enumerate(layers.rows) for node in row}
    places = {node: (across[node], layer[node]) for node in across}
    routes = {edge: [places[node] for node in chain] for edge, chain in layers.chains.items()}
    return Drawing(
        [places[node] for node in range(count)],
        routes,
        max(across.values(), default=0.0) + 1,
        len(layers.rows),
    )


def _layer_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Each node one layer below the lowest that feeds it; sources just above their first reader."""
    forward = sorted((source, target) for source, target in edges if source < target)
    layer = [0] * count
    for source, target in forward:  # sources come in order, so each is final when it is read
        layer[target] = max(layer[target], layer[source] + 1)
    fed = {target for _, target in forward}
    for node in range(count):
        readers = [layer[target] for source, target in forward if source == node]
        if node not in fed and readers:
            layer[node] = min(readers) - 1
    return layer


def _with_bends(layer: Sequence[int], edges: Sequence[Edge]) -> _Layers:
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, at in enumerate(layer):
        rows[at].append(node)
    layers, following = _Layers(len(layer), rows), len(layer)
    for source, target in edges:
        first, last = layer[source], layer[target]
        step = 1 if last >= first else -1
        bends = list(range(first + step, last, step))
        chain = [source, *range(following, following + len(bends)), target]
        following += len(bends)
        for node, at in zip(chain[1:-1], bends, strict=True):
            rows[at].append(node)
        layers.chains[source, target] = chain
        for one, other in pairwise(chain if step > 0 else chain[::-1]):
            layers.below[one].append(other)
            layers.above[other].append(one)
    return layers


def _reorder(rows: list[list[int]], linked: Mapping[int, list[int]]) -> None:
    """Put each node of a row at the mean place of its neighbours in the row before."""
    for row in rows:
        place = {node: at for row in rows for at, node in enumerate(row)}

        def mean(node: int, place: Mapping[int, int] = place) -> float:
            neighbours = [place[other] for other in linked.get(node, ())]
            return sum(neighbours) / len(neighbours) if neighbours else place[node]

        row.sort(key=mean)


def _columns(layers: _Layers) -> dict[int, float]:
    """A column for each node: near the mean of all its neighbours, in the order of its row, one
    apart from the next (a bend needs half of that)."""
    across = {node: float(at) for row in layers.rows for at, node in enumerate(row)}
    for _ in range(_ROUNDS):
        for row in (*layers.rows, *layers.rows[::-1]):
            wanted = []
            for node in row:
                neighbours = [*layers.above.get(node, ()), *layers.below.get(node, ())]
                mean = (
                    sum(across[other] for other in neighbours) / len(neighbours)
                    if neighbours
                    else across[node]
                )
                wanted.append(mean)
            gaps = [_gap(one, other, layers.real) for one, other in pairwise(row)]
            across.update(zip(row, _spread_places(wanted, gaps), strict=True))
    lowest = min(across.values(), default=0.0)
    return {node: at - lowest for node, at in across.items()}


def _gap(one: int, other: int, real: int) -> float:
    return 1.0 if one < real and other < real else 0.6


def _spread_places(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Places as near to those *wanted* as the *gaps* between them allow: the mean of pushing all to
    the right and of pushing all to the left."""
    right = list(wanted)
    for at, gap in enumerate(gaps, start=1):
        right[at] = max(right[at], right[at - 1] + gap)
    places = list(wanted)
    for at in range(len(gaps) - 1, -1, -1):
        places[at] = min(places[at], places[at + 1] - gaps[at])
    return [(one + other) / 2 for one, other in zip(places, right, strict=True)]
