"""Replicated: every rank has all of it, as of norms in tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs


class _Replicated:
    name = "replicated"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        return ()

    def words(self, placement: Placement) -> str:
        is_weight = placement.kind is PlacedAs.WEIGHT and placement.name == placement.golden
        return "all of it" if is_weight and placement.proved and not placement.runs else ""


RULE = _Replicated()
