"""Column parallel: a rank has rows of the weight, and makes as many features of the output."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Column:
    name = "column"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        is_column = placement.kind is PlacedAs.WEIGHT and placement.reader != "embedding"
        if not (is_column and placement.is_cut_only(0) and len(placement.runs[0][1]) == 1):
            return ""
        return f"{placement.part(0)} of its rows (column parallel)"


RULE = _Column()
