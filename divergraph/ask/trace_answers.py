"""The answer to where an error goes: the ops it reaches, and its paths."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class TraceStep:
    """An op the error passes, ``distance`` edges from where the trace starts at least."""

    row: OpRow
    distance: int


@dataclass(frozen=True, slots=True)
class PathStep:
    """An op on a path, with what happens to the error there.

    ``joins`` are the other ops that bring it error of the same start, ``other_origins``
    origins whose error joins here. ``diluted`` is true where the error shrinks because an
    input that the start does not reach is mixed in.
    """

    row: OpRow
    joins: tuple[str, ...] = ()
    other_origins: tuple[str, ...] = ()
    diluted: bool = False
    healed: bool = False


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
    steps: tuple[PathStep, ...]
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
    """

    op: str
    steps: tuple[TraceStep, ...]
    outputs: tuple[str, ...]
    measured: int
    over: int
    healed: tuple[str, ...]
    paths: tuple[ErrorPath, ...] = ()
