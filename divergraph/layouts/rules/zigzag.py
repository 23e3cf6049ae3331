"""Context parallel in zigzag: a chunk from the begin of the sequence and one from its end.

So causal attention costs all ranks the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.shares import Runs, joined


class _Zigzag:
    name = "zigzag"

    def parts(self, golden_length: int, length: int) -> Iterable[Runs]:
        half, rest = divmod(length, 2)
        if rest or not 0 < length < golden_length or golden_length % length:
            return
        for first in range(0, golden_length // 2, half):
            last = golden_length - first - half
            yield joined(((first, first + half), (last, last + half)))

    def words(self, placement: Placement) -> str:
        if placement.kind is not PlacedAs.DATA or not placement.is_cut_only(1):
            return ""
        is_zigzag = len(placement.runs[0][1]) > 1
        return f"{placement.part(1)} of the sequence (zigzag)" if is_zigzag else ""


RULE = _Zigzag()
