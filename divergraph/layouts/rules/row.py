"""Row parallel: a rank has columns of the weight and reads as many features.

What it makes is an addend of the output: ranks add up.
"""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Row:
    name = "row"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        if placement.kind is PlacedAs.WEIGHT and placement.is_cut_only(1):
            return f"{placement.part(1)} of its columns (row parallel)"
        return ""


RULE = _Row()
