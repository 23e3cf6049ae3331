"""The ops around one op: so few that a picture of them can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.ask.facts import load_facts
from graphstore.contract import GraphStore
from graphstore.model import Shape, Side
from graphstore.op_row import OpRow
from graphstore.schema.codec import plain_text
from graphstore.traverse.arrays import GraphArrays

MOST = 60
_HOPS, _FEW = 4, 16
"""So many steps are gone if few ops are found, else two."""
_HUB = 32
"""An op with more neighbours is shown, and not gone beyond."""
_WIDE = 8
"""Of the neighbours of one op on one side so many are shown."""


@dataclass(frozen=True, slots=True)
class NearEdge:
    """Tensors that go from op number ``source`` of the picture to number ``target``; ``shapes``
    are theirs, each once."""

    source: int
    target: int
    shapes: tuple[Shape | None, ...]


@dataclass(frozen=True, slots=True)
class NearOps:
    """The ops of a picture, in execution order, ``focus`` is the number of the one it is about.
    ``hidden`` says how many neighbours of an op, by its number, are not shown."""

    rows: Sequence[OpRow]
    edges: Sequence[NearEdge]
    focus: int
    hidden: Mapping[int, int]


def near_ops(store: GraphStore, target: str, op: str, side: Side) -> NearOps:
    """Those within a few steps of *op*, up and down, the nearest first, 60 at the most.

    Raises:
        UnknownNameError: no such run or graph.
    """
    facts = load_facts(store, target, side)
    arrays = facts.arrays
    numbers = sorted(_around(arrays, arrays.number[op]))
    place = {number: at for at, number in enumerate(numbers)}
    rows = [facts.rows[number] for number in numbers]
    hidden = {}
    for number, at in place.items():
        neighbours = {*arrays.predecessors(number).tolist(), *arrays.successors(number).tolist()}
        if more := len(neighbours - place.keys()):
            hidden[at] = more
    edges = _edges(store, target, side, [row.id for row in rows], arrays, place)
    return NearOps(rows, edges, place[arrays.number[op]], hidden)


def _around(arrays: GraphArrays, focus: int) -> set[int]:
    around, edge = {focus}, [focus]
    for hop in range(_HOPS):
        if hop >= 2 and len(around) >= _FEW:
            break
        following: list[int] = []
        for number in edge:
            if number != focus and _degree(arrays, number) > _HUB:
                continue  # what else it feeds is far from the focus
            for neighbours in (arrays.predecessors(number), arrays.successors(number)):
                following += [
                    neighbour
                    for neighbour in neighbours.tolist()[:_WIDE]
                    if neighbour not in around
                ]
        edge = list(dict.fromkeys(following))[: MOST - len(around)]
        around.update(edge)
    return around


def _degree(arrays: GraphArrays, number: int) -> int:
    return len(arrays.predecessors(number)) + len(arrays.successors(number))


def _edges(
    store: GraphStore,
    target: str,
    side: Side,
    ids: Sequence[str],
    arrays: GraphArrays,
    place: Mapping[int, int],
) -> list[NearEdge]:
    ops = store.ops(target, ids, side)
    shapes: dict[tuple[int, int], list[Shape | None]] = {}
    for number, at in place.items():
        for reader in arrays.successors(number).tolist():
            if reader in place:
                shapes[at, place[reader]] = []
    number_of = {op: at for at, op in enumerate(ids)}
    for op, value in ops.items():
        for ref in value.inputs:
            producer = None if ref is None else ref.producer
            before = "" if producer is None else plain_text(producer.op)
            if producer is None or before not in number_of:
                continue
            outputs = ops[before].outputs
            shape = outputs[producer.port].shape if 0 <= producer.port < len(outputs) else None
            listed = shapes.setdefault((number_of[before], number_of[op]), [])
            if shape not in listed:
                listed.append(shape)
    return [
        NearEdge(source, target, tuple(shape)) for (source, target), shape in sorted(shapes.items())
    ]
