"""A graph as numpy CSR arrays: what every long traversal runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Int32: TypeAlias = NDArray[np.int32]
Bool: TypeAlias = NDArray[np.bool_]
_Integer = TypeVar("_Integer", np.int32, np.int64)


@dataclass(frozen=True)
class GraphArrays:
    """Ops numbered 0..n-1 by ``topo``; edges as CSR in both directions.

    ``ids[i]`` is the op id of number i. ``successors`` of i are
    ``successor_ops[successor_start[i]:successor_start[i + 1]]``, sorted and without
    doubles; predecessors alike. Data and call edges only: control edges carry no error.
    """

    ids: Sequence[str]
    successor_start: Int32
    successor_ops: Int32
    predecessor_start: Int32
    predecessor_ops: Int32
    places: InitVar[Mapping[str, int] | None] = None
    """``number``, where it is there already."""

    def __post_init__(self, places: Mapping[str, int] | None) -> None:
        if places is not None:
            self.__dict__["number"] = places

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each op by its id."""
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    def successors(self, number: int) -> Int32:
        """Numbers of the ops fed by op *number*, ascending."""
        start = self.successor_start
        return self.successor_ops[start[number] : start[number + 1]]

    def predecessors(self, number: int) -> Int32:
        """Numbers of the ops that feed op *number*, ascending."""
        start = self.predecessor_start
        return self.predecessor_ops[start[number] : start[number + 1]]


def arrays_from_edges(
    ids: Sequence[str], edges: tuple[Sequence[int] | Int32, Sequence[int] | Int32]
) -> GraphArrays:
    """Arrays of the ops *ids*, given in topo order.

    *edges* are (source numbers, target numbers) of equal length, in any order, doubles allowed.
    """
    size = len(ids)
    sources, targets = (np.asarray(ends, dtype=np.int32) for ends in edges)
    forward, backward = csr(size, sources, targets), csr(size, targets, sources)
    return GraphArrays(tuple(ids), *forward, *backward)


def distinct(numbers: NDArray[_Integer]) -> NDArray[_Integer]:
    """*numbers* ascending, each once; several times as fast as ``np.unique``, which hashes."""
    ascending = np.sort(numbers)
    is_first = np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]
    values: NDArray[_Integer] = ascending[is_first]
    return values


def csr(size: int, sources: Int32, targets: Int32) -> tuple[Int32, Int32]:
    """(start, ops): the distinct targets of each source 0..size-1, ascending."""
    key = distinct(sources.astype(np.int64) * max(size, 1) + targets)
    source, target = np.divmod(key, max(size, 1))
    start = np.zeros(size + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=size)[:size], out=start[1:])
    return start, target.astype(np.int32)
