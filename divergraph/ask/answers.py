"""The answers to the questions: plain values every front end shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
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
class ModuleRow:
    """The ops under one name space: how many, the worst cosine (NaN is worst), states by
    count."""

    name: str
    ops: int
    worst_cosine: float | None
    states: Mapping[OpState, int]


@dataclass(frozen=True, slots=True)
class Overview:
    """A run at a glance.

    ``matched_ops`` of the device's ops have at least one original; ``matched_originals`` of the
    golden side's are named by some device op. ``worst`` is worst first. ``answer`` has the details
    of origins and suspects. Without ``is_whole`` only the run's record was read: there are the run,
    the origins and suspects, in whose rows the place (-1) and what the graphs say is missing.
    """

    run: Run
    origins: tuple[Origin, ...]
    origin_rows: tuple[OpRow, ...]
    worst: tuple[OpRow, ...]
    state_counts: Mapping[OpState, int]
    reasons: tuple[ReasonGroup, ...]
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
