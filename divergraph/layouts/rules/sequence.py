"""Context parallel: a rank has a chunk of every sequence."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Sequence:
    name = "sequence"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        if placement.kind is not PlacedAs.DATA or not placement.is_cut_only(1):
            return ""
        is_chunk = len(placement.runs[0][1]) == 1
        return f"{placement.part(1)} of the sequence" if is_chunk else ""


RULE = _Sequence()
