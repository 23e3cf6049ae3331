"""Micro batches: a rank calls its modules for each part of the batch, golden once."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _MicroBatch:
    name = "micro_batch"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        return f"{placement.part(0)} of the batch" if placement.kind is PlacedAs.MICRO_BATCH else ""


RULE = _MicroBatch()
