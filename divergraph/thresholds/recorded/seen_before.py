"""What the calls of a recorded run, before the one that is judged, have shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from divergraph.thresholds.recorded.call_errors import CallErrors
from divergraph.thresholds.recorded.errors import NONE, Error, most
from graphstore.model import AttrValue, Comparison, DType, Op
from importers.msprobe.job_names import RANK, RANKS, rank_of_output

WHOLE = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL})
"""Types of indices, masks and counts."""


@dataclass
class SeenBefore:
    """Of the calls so far: whether one was over a limit, those that chose otherwise (made other
    whole numbers), the ranks with anything wrong, those that were fed right data, the largest error
    and the largest mean of elements' relative errors. ``is_first`` until a call had outputs that
    were compared, ``is_forward`` until the first way back."""

    errors: CallErrors
    is_over: bool = False
    choices: set[str] = field(default_factory=set)
    ranks_off: set[AttrValue | None] = field(default_factory=set)
    fed_right: set[AttrValue | None] = field(default_factory=set)
    largest: Error = NONE
    elements: float = 0.0
    is_first: bool = True
    is_forward: bool = True

    def add(self, op: Op, read: Sequence[Comparison], outputs: Sequence[Comparison]) -> None:
        """Take in a call that was judged, with what it *read* and its *outputs*."""
        self.is_over |= any(item.over for item in outputs)
        chosen = [
            item
            for item in outputs
            if item.device_dtype in WHOLE and self.errors.of(item) not in (None, NONE)
        ]
        if chosen:
            self.choices.add(op.id)
        own = () if RANKS in op.attrs else read  # what ranks give is wrong on them already
        self.ranks_off.update(
            rank_of_output(op, item.port) if RANKS in op.attrs else op.attrs.get(RANK)
            for item in (*own, *outputs)
            if item.over or item.misshapen or item in chosen
        )
        self.largest = most((self.largest, self.errors.largest(outputs)))
        means = [item.metrics.mean_relative_error for item in outputs if item.metrics]
        self.elements = max(self.elements, *(mean for mean in means if mean == mean), 0.0)
        self.is_first = self.is_first and not outputs
        self.is_forward = self.is_forward and op.attrs.get("direction") in (None, "forward")
