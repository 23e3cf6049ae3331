"""Data parallel: a rank has a chunk of the batch, and takes the mean over it."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Batch:
    name = "batch"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        if not 0 < length < golden_length or golden_length % length:
            return
        for start in range(0, golden_length, length):
            yield ((start, start + length),)

    def words(self, placement: Placement) -> str:
        if placement.kind is PlacedAs.DATA and placement.is_cut_only(0):
            return f"{placement.part(0)} of the batch"
        return ""


RULE = _Batch()
