"""The ops around one op: what it reads from and what reads it, a number of steps far."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.facts import resolve_op
from divergraph.ask.few_rows import rows_of
from graphstore.contract import GraphStore
from graphstore.model import Side
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import GraphArrays

MOST = 500
"""Ops of a neighbourhood; who wants more asks a list."""


@dataclass(frozen=True, slots=True)
class NeighbourOp:
    """An op ``distance`` steps behind the one asked for, or before it where that is negative.

    ``reads`` and ``read_by`` are the ids of the neighbours it reads from and is read by.
    """

    row: OpRow
    distance: int
    reads: tuple[str, ...]
    read_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpsAround:
    """The ops around ``op`` up to ``depth`` steps, in execution order; ``left_out`` were too
    many."""

    op: str
    depth: int
    ops: tuple[NeighbourOp, ...]
    left_out: int


def neighbourhood(
    store: GraphStore, target: str, op: str, depth: int, side: Side = Side.DEVICE
) -> OpsAround:
    """The ops from which data reaches *op*, and those it reaches, in *depth* steps or fewer.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    arrays = store.arrays(target, side)
    op_id = resolve_op(store, target, op, side)
    centre = arrays.number[op_id]
    after = _steps(arrays, centre, depth, forward=True)
    distances = {**_steps(arrays, centre, depth, forward=False), **after, centre: 0}
    nearest = sorted(distances, key=lambda number: (abs(distances[number]), number))
    nearest_distances = {number: distances[number] for number in sorted(nearest[:MOST])}
    rows = rows_of(store, target, list(nearest_distances), side)
    ops = tuple(
        _neighbour(arrays, nearest_distances, number, row)
        for number, row in zip(nearest_distances, rows, strict=True)
    )
    return OpsAround(op_id, depth, ops, len(distances) - len(nearest_distances))


def _steps(arrays: GraphArrays, start: int, depth: int, *, forward: bool) -> dict[int, int]:
    """The numbers of the ops one way from *start* with their signed distances."""
    distances, edge = {start: 0}, [start]
    for step in range(1, depth + 1):
        reached: list[int] = []
        for number in edge:
            neighbours = arrays.successors(number) if forward else arrays.predecessors(number)
            reached += [other for other in neighbours.tolist() if other not in distances]
            distances |= dict.fromkeys(reached, step if forward else -step)
        edge = list(dict.fromkeys(reached))
    return distances


def _neighbour(
    arrays: GraphArrays, distances: dict[int, int], number: int, row: OpRow
) -> NeighbourOp:
    before, after = arrays.predecessors(number).tolist(), arrays.successors(number).tolist()
    return NeighbourOp(
        row,
        distances[number],
        tuple(arrays.ids[other] for other in before if other in distances),
        tuple(arrays.ids[other] for other in after if other in distances),
    )
