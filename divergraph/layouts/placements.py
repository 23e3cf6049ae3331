"""What a rank has of one of golden's tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from divergraph.layouts.shares import AxisShare, Runs


class PlacedAs(StrEnum):
    """What a placed tensor is."""

    WEIGHT = "weight"
    DATA = "data"
    MICRO_BATCH = "micro batch"


@dataclass(frozen=True, slots=True)
class Placement:
    """What a rank has of golden's tensor: by axis these *runs*, all of it where there are none.

    ``name`` is the parameter (``blocks.0.attn.q weight``) or the input of the rank, ``golden`` that
    of golden, ``shape`` golden's and ``reader`` the type of the call that reads it. ``proved``:
    value for value golden's.
    """

    kind: PlacedAs
    name: str
    golden: str
    runs: tuple[tuple[int, Runs], ...]
    shape: tuple[int, ...]
    reader: str
    proved: bool

    def part(self, axis: int) -> str:
        """``half 1 of 2``: what it has of an axis; empty for all of it."""
        runs = dict(self.runs).get(axis)
        return "" if runs is None else AxisShare("", runs, self.shape[axis]).words

    def is_cut_only(self, axis: int) -> bool:
        """Whether this axis is cut and no other."""
        return [cut_axis for cut_axis, _ in self.runs] == [axis]
