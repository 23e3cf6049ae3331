"""A chosen part of a graph: its ops, its boundary, and why it may not be cut so. It holds all ops
on paths from the starts to the ends, so it is convex: no path leaves it and comes back. Rules: the
project's study of submodels and the design of its screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

from graphstore.model import DType, Tensor, TensorRef


class RefusalRule(StrEnum):
    """Why a part is refused."""

    NO_WAY = "no_way"
    """An end no start reaches, or a start that reaches no end."""
    TURNED_ROUND = "turned_round"
    """The end feeds the start."""
    BODY_CUT = "body_cut"
    """Some ops are in a control-flow body, others outside it."""
    LOOP_CUT = "loop_cut"
    """Part of a loop (a frame of Switch, Merge, Enter, Exit)."""
    FUSED_CUT = "fused_cut"
    """Some originals of one fused op, others not."""
    NOTHING = "nothing"
    """Nothing in it is computed: it only stands for inputs of the model."""
    NO_FORM = "no_form"
    """A tensor at the boundary has no known shape or type."""
    NO_DATA = "no_data"
    """An input was not dumped."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A broken rule: the sentence names op or tensor; ``starts`` and ``ends`` are the
    nearest legal choice, empty if there is none."""

    rule: RefusalRule
    sentence: str
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundaryTensor:
    """A tensor that goes into the part or comes out of it.

    ``ref`` is None for an input of the model, which ``name`` names. ``users`` are the ops
    that take it: inside the part for inputs, outside it for outputs. ``side`` marks an input
    that enters behind the starts, ``frozen`` one that only tells shapes: it is exported as
    a constant with its dumped value.
    """

    name: str
    ref: TensorRef | None
    dtype: DType | None
    shape: tuple[int | None, ...] | None
    layout: str | None
    users: tuple[str, ...]
    side: bool = False
    frozen: bool = False
    dumped: bool = True

    @property
    def key(self) -> TensorRef | str:
        """``ref``, or the name of the model's input."""
        return self.name if self.ref is None else self.ref

    @property
    def nbytes(self) -> int | None:
        """Its size; None if shape or type is not known."""
        if self.shape is None or self.dtype is None or self.dtype.bits is None:
            return None
        sizes = [size for size in self.shape if size is not None]
        return (prod(sizes) * self.dtype.bits + 7) // 8 if len(sizes) == len(self.shape) else None


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a graph. Op ids are in execution order.

    ``chosen`` are the ops between starts and ends; ``constants`` are ops that only make constants
    and go along; ``weights`` names constants that are no ops. ``added`` of the chosen were not
    asked for: the rest of a fused op or of a loop. ``notes`` explains decisions. A refused part
    must not be exported.
    """

    starts: tuple[str, ...]
    ends: tuple[str, ...]
    chosen: tuple[str, ...]
    constants: tuple[str, ...]
    weights: tuple[str, ...]
    inputs: tuple[BoundaryTensor, ...]
    outputs: tuple[BoundaryTensor, ...]
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """All ops of the part."""
        return (*self.constants, *self.chosen)

    @property
    def lacks_only_forms(self) -> bool:
        """Whether it is refused, if at all, for shapes and types alone, which a dump tells."""
        return all(refusal.rule is RefusalRule.NO_FORM for refusal in self.refused)


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What is known of a tensor from other sources than the graph."""

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None
    dumped: bool = False


Facts = Callable[["TensorRef | str"], TensorFacts]
"""Called with an op's output or the name of a model's input."""


def nothing_known(_: TensorRef | str) -> TensorFacts:
    """For a graph without dumps."""
    return TensorFacts()


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """How to select: ``groups`` are sets of ops that must stay together (the originals of
    each fused op) with the name of that op; ``whole`` takes them and loops whole instead
    of refusing; ``all_outputs`` gives every tensor used outside, not the ends' alone;
    ``data`` refuses inputs that were not dumped."""

    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    whole: bool = False
    all_outputs: bool = False
    data: bool = True


def with_facts(
    tensor: Tensor, facts: TensorFacts
) -> tuple[DType | None, tuple[int | None, ...] | None]:
    """Type and shape: preferably the graph's type, as narrow floats may be dumped as float32, and
    the dumped shape, which is exact."""
    return tensor.dtype or facts.dtype, facts.shape if facts.shape is not None else tensor.shape
