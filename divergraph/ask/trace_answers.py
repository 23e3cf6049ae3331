"""The answer to where an error goes: the ops it reaches, and its paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.error_paths.path_steps import PathSteps
from graphstore.columns.op_columns import OpColumns
from graphstore.model import Note
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class TraceStep:
    """An op the error passes, ``distance`` edges from where the trace starts at least."""

    row: OpRow
    distance: int


@dataclass(frozen=True, slots=True, eq=False)
class TraceSteps(Sequence[TraceStep]):
    """Steps of a trace: *numbers* of *ops*, each at its distance; made when they are asked for."""

    ops: OpColumns
    numbers: NDArray[np.int32]
    distances: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> TraceStep: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceStep]: ...
    def __getitem__(self, index: int | slice) -> TraceStep | list[TraceStep]:
        """One step, or some."""
        if isinstance(index, slice):
            rows, distances = self.ops.rows(self.numbers[index]), self.distances[index].tolist()
            return list(map(TraceStep, rows, distances))
        return TraceStep(self.ops[int(self.numbers[index])], int(self.distances[index]))

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        """Whether *other* has the same steps, whatever store they are of."""
        if not isinstance(other, TraceSteps):
            return NotImplemented
        return len(self) == len(other) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(len(self.numbers))


@dataclass(frozen=True, slots=True)
class Cut:
    """An op that every path passes: a place to cut the model in two.

    ``above`` and ``below`` count the ops before and after it between start and end.
    """

    op: str
    above: int
    below: int


@dataclass(frozen=True, slots=True)
class ErrorPath:
    """The path to the op ``to`` on which most of the error is carried, from the start on.

    ``error`` is that of the last measured op on it. ``ops`` counts all ops between start
    and end, ``cuts`` are those among them (the ends left out) that every path passes.
    """

    to: str
    steps: PathSteps
    error: float | None
    ops: int
    cuts: tuple[Cut, ...]

    @property
    def middle(self) -> Cut | None:
        """The cut that halves the path best."""
        return min(self.cuts, key=lambda cut: (abs(cut.above - cut.below), cut.above), default=None)


@dataclass(frozen=True, slots=True)
class Trace:
    """What lies downstream of ``op`` up to the graph's outputs, in execution order.

    ``steps`` starts with the op itself; ``outputs`` are the reached ops nothing reads. ``over`` of
    the measured steps are over the limit; ``healed`` are measured ops without a notable error (by
    their role; within the limit, if there are no roles) although all their nearest measured
    predecessors in the trace have one. With an end asked for, the steps are what lies between and
    ``outputs`` is that end. ``paths`` leads to a few of the outputs, the largest error first.
    ``notes`` are those on ops, where they were asked for.
    """

    op: str
    steps: Sequence[TraceStep]
    outputs: tuple[str, ...]
    measured: int
    over: int
    healed: tuple[str, ...]
    paths: tuple[ErrorPath, ...] = ()
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)
