"""Heads of a weight that holds queries, keys and values in one: rows of several places."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Heads:
    name = "heads"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        if placement.kind is not PlacedAs.WEIGHT or not placement.is_cut_only(0):
            return ""
        is_fused = len(placement.runs[0][1]) > 1
        return f"{placement.part(0)} of its rows (heads of a fused weight)" if is_fused else ""


RULE = _Heads()
