"""The answers to the questions: plain values every front end shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from graphstore.columns.coded import Coded, Float
from graphstore.model import (
    AttrValue,
    Comparison,
    DType,
    Finding,
    LineageLink,
    OpState,
    Origin,
    Reason,
    Run,
    Shape,
    TensorRef,
)
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """How many tensors were not compared for one reason, with a few of their ops."""

    reason: Reason
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One measured op along execution order; ``cosine`` is its worst output's."""

    topo: int
    op: str
    cosine: float | None
    state: OpState


@dataclass(frozen=True, slots=True, eq=False)
class CurvePoints(Sequence[CurvePoint]):
    """The measured ops along execution order: their numbers, cosines (NaN where there is none) and
    states; a :class:`CurvePoint` for each that is asked for."""

    ids: Sequence[str]
    topo: NDArray[np.int64]
    cosine: Float
    states: Coded[OpState | None]

    def __len__(self) -> int:
        return len(self.topo)

    @overload
    def __getitem__(self, index: int) -> CurvePoint: ...
    @overload
    def __getitem__(self, index: slice) -> list[CurvePoint]: ...
    def __getitem__(self, index: int | slice) -> CurvePoint | list[CurvePoint]:
        """One point, or some."""
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        topo, cosine, state = int(self.topo[index]), float(self.cosine[index]), self.states[index]
        assert state is not None
        return CurvePoint(topo, self.ids[topo], None if math.isnan(cosine) else cosine, state)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """The ops under one name space: how many, the worst cosine (NaN is worst), states by
    count."""

    name: str
    ops: int
    worst_cosine: float | None
    states: Mapping[OpState, int]


@dataclass(frozen=True, slots=True)
class Overview:
    """A run at a glance. ``matched_ops`` of the device's ops have at least one original;
    ``matched_originals`` of the golden side's are named by some device op. ``curve`` is in topo
    order over ops with a compared output; ``worst`` is worst first. ``answer`` has the details of
    origins and suspects. Without ``is_whole`` only the run's record was read: there are the run,
    the origins and suspects, in whose rows the place (-1) and what the graphs say is missing."""

    run: Run
    origins: tuple[Origin, ...]
    origin_rows: tuple[OpRow, ...]
    worst: tuple[OpRow, ...]
    state_counts: Mapping[OpState, int]
    reasons: tuple[ReasonGroup, ...]
    curve: CurvePoints
    golden_name: str
    golden_framework: str
    golden_ops: int
    device_name: str
    device_framework: str
    device_ops: int
    matched_ops: int
    matched_originals: int
    modules: tuple[ModuleRow, ...]
    suspects: tuple[Origin, ...] = ()
    suspect_rows: tuple[OpRow, ...] = ()
    answer: OriginsAnswer | None = None
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One input or output of an op, with its comparison if it has one.

    For an input ``producer`` is where it comes from (None: a graph input, a constant or
    not connected, see ``tensor``); for an output ``consumers`` are the ops that read it.
    """

    port: int
    tensor: str
    producer: TensorRef | None
    consumers: tuple[str, ...]
    dtype: DType | None
    shape: Shape | None
    layout: str | None
    comparison: Comparison | None

    @property
    def compared(self) -> Comparison | None:
        """Its comparison, if that has metrics."""
        return self.comparison if self.comparison is not None and self.comparison.compared else None

    @property
    def not_compared(self) -> Comparison | None:
        """Its comparison, if that says why there are no metrics."""
        item = self.comparison
        return None if item is None or item.reason is None else item


@dataclass(frozen=True, slots=True)
class OpDetail:
    """Everything about one op. ``explanation`` says in one sentence why it has its state.

    ``answer`` is set for origins and suspects, ``findings`` are those about the op.
    """

    row: OpRow
    attrs: Mapping[str, AttrValue]
    inputs: tuple[TensorRow, ...]
    outputs: tuple[TensorRow, ...]
    controls: tuple[str, ...]
    links: tuple[LineageLink, ...]
    explanation: str
    answer: OriginAnswer | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def types(self) -> Mapping[str, str]:
        """The type of the op by its id."""
        return {self.row.id: self.row.type}
