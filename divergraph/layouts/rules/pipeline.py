"""A pipeline, or expert parallelism, where ranks number what they have from 0.

The weights tell which layers or experts of golden these are (``names``), which is said once.
"""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Pipeline:
    name = "pipeline"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        is_renamed = placement.kind is PlacedAs.WEIGHT and placement.name != placement.golden
        if not is_renamed or placement.runs or not placement.proved:
            return ""
        return "all of it, by another name"


RULE = _Pipeline()
