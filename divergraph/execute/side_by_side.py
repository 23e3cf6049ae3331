"""Subgraphs run in batches, all of a batch side by side in one session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph, SubgraphResult, SubgraphValues
from graphstore.errors import ExecutionError


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece cut out of its model; an executor's own kind says what it consists of."""

    piece: RunnableSubgraph

    @property
    def made(self) -> list[str]:
        """The outputs that are not simply inputs handed on."""
        return [name for name in self.piece.outputs if name not in self.piece.inputs]


_S = TypeVar("_S", bound=Slice)
_Batch = Sequence[tuple[_S, Mapping[str, Array]]]
_Run = Callable[[Sequence[_S], Sequence[Mapping[str, Array]]], Iterable[Any]]
"""Gives the outputs of slices on what is given for each, slice by slice; the error in place of
those of a slice that does not run, or raises it if that may be any of them."""


def run_in_batches(
    pieces: Iterable[RunnableSubgraph],
    values: SubgraphValues,
    cut: Callable[[RunnableSubgraph], _S],
    run: _Run[_S],
    memory: int,
    *,
    weights: Callable[[_S], Mapping[str, int]] = lambda _: {},
    limit: int | None = None,
) -> Iterator[SubgraphResult]:
    """The result of each piece, in batches of *memory* bytes of inputs and weights and at *limit*
    so many pieces; a batch that does not run is halved until it is clear which piece it is.

    *weights* gives the bytes of the weights that a slice takes, which those of a batch share.
    """
    batch: list[tuple[_S, Mapping[str, Array]]] = []
    shared: set[str] = set()
    batch_bytes = 0
    for piece in pieces:
        try:
            part = cut(piece)
        except ExecutionError as error:
            yield SubgraphResult(piece.key, {}, str(error))
            continue
        piece_values = values(piece)
        own = weights(part)
        fed = sum(value.nbytes for value in piece_values.values())
        size = fed + sum(count for name, count in own.items() if name not in shared)
        if batch and (batch_bytes + size > memory or len(batch) == limit):
            yield from _side_by_side(batch, run)
            batch, shared, batch_bytes = [], set(), 0
            size = fed + sum(own.values())
        batch.append((part, piece_values))
        shared.update(own)
        batch_bytes += size
    if batch:
        yield from _side_by_side(batch, run)


def _side_by_side(batch: _Batch[_S], run: _Run[_S]) -> Iterator[SubgraphResult]:
    try:
        values = list(run([part for part, _ in batch], [piece_values for _, piece_values in batch]))
    except ExecutionError as error:
        if len(batch) == 1:
            yield SubgraphResult(batch[0][0].piece.key, {}, str(error))
            return
        middle = len(batch) // 2
        yield from _side_by_side(batch[:middle], run)
        yield from _side_by_side(batch[middle:], run)
        return
    values.reverse()  # what is told is let go of
    for part, _ in batch:
        yield _result_of(part, {name: values.pop() for name in part.made})


def _result_of(part: Slice, outputs: Mapping[str, Any]) -> SubgraphResult:
    arrays = {name: value for name, value in outputs.items() if isinstance(value, np.ndarray)}
    other = next((name for name in outputs if name not in arrays), None)
    if other is None:
        return SubgraphResult(part.piece.key, arrays)
    if isinstance(outputs[other], ExecutionError):
        return SubgraphResult(part.piece.key, {}, str(outputs[other]))
    why = f"{other!r} is a sequence, map or optional value"
    return SubgraphResult(part.piece.key, arrays, why)
