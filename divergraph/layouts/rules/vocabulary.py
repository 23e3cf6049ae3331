"""Vocabulary parallel: a rank embeds its own words, others as 0; ranks add up."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Vocabulary:
    name = "vocabulary"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        is_table = placement.kind is PlacedAs.WEIGHT and placement.reader == "embedding"
        return f"{placement.part(0)} of its words" if is_table and placement.is_cut_only(0) else ""


RULE = _Vocabulary()
